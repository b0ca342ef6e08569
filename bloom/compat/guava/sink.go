package guava

import (
	"encoding/binary"
	"math"
	"unicode/utf16"
)

// A Sink collects what a funnel puts into it, as Guava's PrimitiveSink does: one after the
// other, with nothing between and no lengths. So ("ab", "c") and ("a", "bc") are the same
// key, there as here. The zero Sink is empty.
type Sink struct{ key []byte }

// PutByte is putByte. Java's byte has a sign, which makes no difference here.
func (s *Sink) PutByte(v byte) { s.key = append(s.key, v) }

// PutBytes is putBytes. It copies the bytes.
func (s *Sink) PutBytes(b []byte) { s.key = append(s.key, b...) }

// PutBoolean is putBoolean: a byte 1 or 0.
func (s *Sink) PutBoolean(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	s.key = append(s.key, b)
}

// PutShort is putShort: 2 bytes, little-endian.
func (s *Sink) PutShort(v int16) { s.key = binary.LittleEndian.AppendUint16(s.key, uint16(v)) }

// PutChar is putChar: a UTF-16 code unit in 2 bytes, little-endian.
func (s *Sink) PutChar(v uint16) { s.key = binary.LittleEndian.AppendUint16(s.key, v) }

// PutInt is putInt: 4 bytes, little-endian.
func (s *Sink) PutInt(v int32) { s.key = binary.LittleEndian.AppendUint32(s.key, uint32(v)) }

// PutLong is putLong: 8 bytes, little-endian.
func (s *Sink) PutLong(v int64) { s.key = binary.LittleEndian.AppendUint64(s.key, uint64(v)) }

// PutFloat is putFloat: the bits of the number as an int. A NaN keeps its bits.
func (s *Sink) PutFloat(v float32) {
	s.key = binary.LittleEndian.AppendUint32(s.key, math.Float32bits(v))
}

// PutDouble is putDouble: the bits of the number as a long. A NaN keeps its bits.
func (s *Sink) PutDouble(v float64) {
	s.key = binary.LittleEndian.AppendUint64(s.key, math.Float64bits(v))
}

// PutUnencodedChars is putUnencodedChars: the UTF-16 code units of a string, each as PutChar.
// Bytes that are not UTF-8 count as U+FFFD.
func (s *Sink) PutUnencodedChars(v string) { s.key = appendUTF16(s.key, v) }

// appendUTF16 appends the UTF-16 code units of s, little-endian.
func appendUTF16(b []byte, s string) []byte {
	for _, r := range s {
		if hi, lo := utf16.EncodeRune(r); hi != '\ufffd' {
			b = binary.LittleEndian.AppendUint16(b, uint16(hi))
			r = lo
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(r))
	}
	return b
}

// A Charset says how PutString encodes a string. The names are those of Java's
// StandardCharsets.
type Charset byte

// The charsets that every Java has. Characters that a charset lacks become "?". UTF16 is
// big-endian and begins with a byte order mark, unless the string is empty.
const (
	UTF8 Charset = iota
	ISO88591
	USASCII
	UTF16
	UTF16BE
	UTF16LE
)

// PutString is putString(v, charset): the encoded string without its length. For UTF8 these
// are the bytes of v as they are. For the others, bytes that are not UTF-8 count as U+FFFD.
// A charset that is none of the above counts as UTF8.
func (s *Sink) PutString(v string, charset Charset) {
	switch charset {
	case ISO88591:
		s.putNarrow(v, 0xff)
	case USASCII:
		s.putNarrow(v, 0x7f)
	case UTF16, UTF16BE:
		if charset == UTF16 && v != "" {
			s.key = append(s.key, 0xfe, 0xff)
		}
		from := len(s.key)
		s.key = appendUTF16(s.key, v)
		for unit := s.key[from:]; len(unit) > 0; unit = unit[2:] {
			unit[0], unit[1] = unit[1], unit[0]
		}
	case UTF16LE:
		s.key = appendUTF16(s.key, v)
	default:
		s.key = append(s.key, v...)
	}
}

// putNarrow puts a byte for each character, "?" for those above last.
func (s *Sink) putNarrow(v string, last rune) {
	for _, r := range v {
		if r > last {
			r = '?'
		}
		s.key = append(s.key, byte(r))
	}
}

// Key returns the bytes that were put in, for a caller that calls Add and MayContain of a
// Filter itself. They are valid until the next call of a method of s.
func (s *Sink) Key() []byte { return s.key }

// Reset empties s.
func (s *Sink) Reset() { s.key = s.key[:0] }

// Sequence returns the funnel of a slice: Funnels.sequentialFunnel, which puts in the
// elements one after the other.
func Sequence[T any](funnel func(t T, s *Sink)) func(all []T, s *Sink) {
	return func(all []T, s *Sink) {
		for _, t := range all {
			funnel(t, s)
		}
	}
}

package typed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// A KeyCodec turns keys into bytes that sort as the keys do. Other types than those here are made of them by Convert and
// Tuple2.
type KeyCodec[K any] interface {
	// append appends the bytes of key to dst. Those of a part end where they say so themselves: another key may follow.
	append(dst []byte, key K, part bool) ([]byte, error)

	// decode reads a key from src: from its beginning if it is a part, else from all of it, and then rest is empty. It
	// takes only what append makes.
	decode(src []byte, part bool) (key K, rest []byte, err error)
}

// The codecs of simple types. Their formats never change.
var (
	// String and Bytes store the bytes as they are. In a part 00 becomes 00 ff, and 00 01 ends it.
	String KeyCodec[string] = text[string]{}
	Bytes  KeyCodec[[]byte] = text[[]byte]{}

	// Unsigned integers are stored in big-endian.
	Uint64 KeyCodec[uint64] = number[uint64]{8, func(k uint64) (uint64, error) { return k, nil },
		func(n uint64) (uint64, error) { return n, nil }}
	Uint32 KeyCodec[uint32] = number[uint32]{4, func(k uint32) (uint64, error) { return uint64(k), nil },
		func(n uint64) (uint32, error) { return uint32(n), nil }}

	// Signed integers are stored in big-endian, with the sign flipped. Int is stored as Int64: a key that an int of this
	// machine can't hold gives an error.
	Int64 KeyCodec[int64] = number[int64]{8, func(k int64) (uint64, error) { return uint64(k) ^ sign64, nil },
		func(n uint64) (int64, error) { return int64(n ^ sign64), nil }}
	Int32 KeyCodec[int32] = number[int32]{4, func(k int32) (uint64, error) { return uint64(uint32(k) ^ 1<<31), nil },
		func(n uint64) (int32, error) { return int32(uint32(n) ^ 1<<31), nil }}
	Int KeyCodec[int] = number[int]{8, func(k int) (uint64, error) { return uint64(k) ^ sign64, nil }, decodeInt}

	// Float64 takes all numbers but NaN, which has no place among them. -0 is stored as 0.
	Float64 KeyCodec[float64] = number[float64]{8, encodeFloat, decodeFloat}

	// Bool sorts false before true.
	Bool KeyCodec[bool] = number[bool]{1, encodeBool, decodeBool}

	// Time stores an instant, to the nanosecond. Times come back in UTC.
	Time = Convert(Tuple2(Int64, Uint32),
		func(t time.Time) Pair[int64, uint32] {
			return Pair[int64, uint32]{t.Unix() + yearOne, uint32(t.Nanosecond())}
		},
		decodeTime)
)

const (
	sign64 = 1 << 63

	// yearOne is the number of seconds from the beginning of year 1 to that of 1970. The seconds of a Time count from
	// there, as those of time.Time do, so that all instants have a place.
	yearOne = 62135596800
)

// number is the codec of what takes a fixed number of bytes.
type number[K any] struct {
	width  int
	encode func(K) (uint64, error)
	make   func(uint64) (K, error)
}

func (c number[K]) append(dst []byte, key K, _ bool) ([]byte, error) {
	n, err := c.encode(key)
	if err != nil {
		return dst, err
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return append(dst, b[8-c.width:]...), nil
}

func (c number[K]) decode(src []byte, part bool) (key K, rest []byte, err error) {
	if len(src) < c.width || !part && len(src) > c.width {
		return key, nil, fmt.Errorf("%d bytes where %d belong", len(src), c.width)
	}
	var b [8]byte
	copy(b[8-c.width:], src)
	key, err = c.make(binary.BigEndian.Uint64(b[:]))
	return key, src[c.width:], err
}

func decodeInt(n uint64) (int, error) {
	k := int64(n ^ sign64)
	if int64(int(k)) != k {
		return 0, fmt.Errorf("%d is out of the range of int", k)
	}
	return int(k), nil
}

func encodeFloat(k float64) (uint64, error) {
	switch {
	case math.IsNaN(k):
		return 0, errors.New("NaN is no key")
	case k < 0:
		return ^math.Float64bits(k), nil
	case k == 0:
		k = 0 // -0 too
	}
	return math.Float64bits(k) | sign64, nil
}

func decodeFloat(n uint64) (float64, error) {
	bits := ^n
	if n >= sign64 {
		bits = n &^ sign64
	}
	k := math.Float64frombits(bits)
	if again, err := encodeFloat(k); err != nil || again != n {
		return 0, errors.New("NaN or -0 as a key")
	}
	return k, nil
}

func encodeBool(k bool) (uint64, error) {
	if k {
		return 1, nil
	}
	return 0, nil
}

func decodeBool(n uint64) (bool, error) {
	if n > 1 {
		return false, fmt.Errorf("%d is no bool", n)
	}
	return n == 1, nil
}

func decodeTime(p Pair[int64, uint32]) (time.Time, error) {
	if p.Second >= 1e9 {
		return time.Time{}, fmt.Errorf("%d nanoseconds in a second", p.Second)
	}
	return time.Unix(p.First-yearOne, int64(p.Second)).UTC(), nil
}

// text is the codec of strings of bytes.
type text[K ~string | ~[]byte] struct{}

const (
	escape     = 0x00
	escaped    = 0xff // after escape: a byte 00 of the text
	terminator = 0x01 // after escape: the end
)

func (text[K]) append(dst []byte, key K, part bool) ([]byte, error) {
	if !part {
		return append(dst, key...), nil
	}
	for i := range len(key) {
		dst = append(dst, key[i])
		if key[i] == escape {
			dst = append(dst, escaped)
		}
	}
	return append(dst, escape, terminator), nil
}

func (text[K]) decode(src []byte, part bool) (key K, rest []byte, err error) {
	if !part {
		return K(bytes.Clone(src)), nil, nil
	}
	k := []byte{}
	for {
		i := bytes.IndexByte(src, escape)
		if i < 0 || i+1 == len(src) {
			return key, nil, errors.New("a text without an end")
		}
		k = append(k, src[:i]...)
		next := src[i+1]
		src = src[i+2:]
		switch next {
		case terminator:
			return K(k), src, nil
		case escaped:
			k = append(k, escape)
		default:
			return key, nil, fmt.Errorf("00 %02x in a text", next)
		}
	}
}

// A Pair is a key of two parts. It sorts by First, and then by Second.
type Pair[A, B any] struct {
	First  A // what pairs sort by
	Second B // what pairs with the same First sort by
}

// Tuple2 is the codec of pairs. Either part may be a pair itself.
func Tuple2[A, B any](first KeyCodec[A], second KeyCodec[B]) KeyCodec[Pair[A, B]] {
	return tuple2[A, B]{first, second}
}

type tuple2[A, B any] struct {
	first  KeyCodec[A]
	second KeyCodec[B]
}

func (c tuple2[A, B]) append(dst []byte, key Pair[A, B], part bool) ([]byte, error) {
	dst, err := c.first.append(dst, key.First, true)
	if err != nil {
		return dst, err
	}
	return c.second.append(dst, key.Second, part)
}

func (c tuple2[A, B]) decode(src []byte, part bool) (key Pair[A, B], rest []byte, err error) {
	if key.First, rest, err = c.first.decode(src, true); err == nil {
		key.Second, rest, err = c.second.decode(rest, part)
	}
	return key, rest, err
}

// Convert returns a codec that stores a key as base stores what to makes of it. from is the way back; its error says that
// there is no such key. Keys sort as what to returns, which must be another value for each key.
func Convert[K, B any](base KeyCodec[B], to func(K) B, from func(B) (K, error)) KeyCodec[K] {
	return converted[K, B]{base, to, from}
}

type converted[K, B any] struct {
	base KeyCodec[B]
	to   func(K) B
	from func(B) (K, error)
}

func (c converted[K, B]) append(dst []byte, key K, part bool) ([]byte, error) {
	return c.base.append(dst, c.to(key), part)
}

func (c converted[K, B]) decode(src []byte, part bool) (key K, rest []byte, err error) {
	b, rest, err := c.base.decode(src, part)
	if err == nil {
		key, err = c.from(b)
	}
	return key, rest, err
}

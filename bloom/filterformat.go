package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/shaledb/shale/bloom/internal/bitarray"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Constants of the serialized form. Part of the file format, never change.
const (
	filterVersion = 1
	filterTailLen = 8 + form.TrailerLen // the count and the trailer
)

// ErrNoHashID says that a filter cannot be serialized, because its hash function
// is the caller's own and has no id. A program that read it would not know how to
// hash its questions.
var ErrNoHashID = errors.New("the hash function has no id")

// tail returns the bytes that follow the words:
//
//	count
//	 0    1       2    3 4 8    12 20   28
//	|kind|version|hash|k|0|keys|m |seed|crc32c|
//
// keys is the count, or 2^32 - 1 if the count is larger. The caller fills in the checksum.
func (f *Filter) tail() []byte {
	b := make([]byte, filterTailLen)
	binary.LittleEndian.PutUint64(b, f.bits.Count)
	t := form.Begin(b, form.KindFilter, filterVersion, f.bits.Count, uint8(f.hash.ID()), f.hash.hasher.Seed())
	t[3] = byte(f.bits.K)
	binary.LittleEndian.PutUint64(t[12:], f.bits.M)
	return b
}

// canWrite returns an error that says why f has no serialized form, or nil if it has one.
func (f *Filter) canWrite() error {
	switch {
	case f.bits.K == 0:
		return errors.New("bloom: write filter: it was not made by New")
	case f.hash.ID() == 0:
		return fmt.Errorf("bloom: write filter: %w", ErrNoHashID)
	}
	return nil
}

// AppendBinary appends the serialized form to dst and returns the longer slice: the words,
// 8 bytes of Count and a trailer of 32 bytes. It is the same on every machine. An error
// leaves dst as it was. It is [ErrNoHashID], or says that f is a zero Filter.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if err := f.canWrite(); err != nil {
		return dst, err
	}
	from := len(dst)
	dst = append(f.bits.AppendWords(dst), f.tail()...)
	form.Seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) {
	return f.AppendBinary(make([]byte, 0, len(f.bits.Words)*8+filterTailLen))
}

// UnmarshalBinary makes f the filter whose serialized form is b, all of b. It copies the
// bytes. An error is [ErrDamaged] or [ErrUnknown], and leaves f as it was. The caller must then
// take every key for one that may be there.
//
// A filter with a Hash of the caller's own can only be read into a Filter that was made
// with the same [HashID]. f keeps that function, and its m and k become those of b.
func (f *Filter) UnmarshalBinary(b []byte) error {
	made, err := openFilter(b, &f.hash)
	if err != nil {
		return err
	}
	made.bits.Own()
	*f = *made
	return nil
}

// OpenFilter returns the filter whose serialized form is b, all of b. It keeps b and does not
// copy it: b must not change while the filter is in use. The filter copies its bits when it
// is changed for the first time, and never changes b. If b does not begin at an address that
// 8 divides, or on a big-endian machine, it copies them at once.
//
// Every byte is checked. The errors are those of UnmarshalBinary. A filter with a Hash of the
// caller's own is [ErrUnknown], and can be read by UnmarshalBinary only.
func OpenFilter(b []byte) (*Filter, error) { return openFilter(b, new(HashFunc)) }

// openFilter is OpenFilter for a filter whose hash function is own if it is not one of this
// package.
func openFilter(b []byte, own *HashFunc) (*Filter, error) {
	t, err := form.TrailerOf(b, form.KindFilter, filterVersion)
	if err != nil {
		return nil, err
	}
	head := form.HeadOf(b)
	hash, err := own.Named(HashID(head.Hash), head.Seed)
	if err != nil {
		return nil, err
	}
	m, k := binary.LittleEndian.Uint64(t[12:]), int(t[3])
	body := len(b) - filterTailLen
	if body < 0 || m != uint64(body)*8 || body%8 != 0 {
		return nil, form.Damage("%d bits in %d bytes", m, len(b))
	}
	if err := form.Check(b); err != nil {
		return nil, err
	}
	count := binary.LittleEndian.Uint64(b[body:])
	switch reserved := binary.LittleEndian.Uint32(t[4:]); {
	case reserved != 0:
		return nil, form.Damage("reserved bytes are %#x", reserved)
	case k < 1 || k > MaxProbes || m == 0:
		return nil, form.Damage("%d probes, %d bits", k, m)
	case uint64(head.Keys) != min(count, math.MaxUint32):
		return nil, form.Damage("%d keys, %d counted", head.Keys, count)
	}
	return &Filter{bits: bitarray.Open(b[:body:body], k, count), hash: hash}, nil
}

// WriteTo writes a frame of 24 bytes and the serialized form, the bytes of MarshalBinary, so
// that ReadFrom finds its end in a stream. It writes 32 KiB at a time and does not hold a copy
// of the whole.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if err := f.canWrite(); err != nil {
		return 0, err
	}
	if n, err = form.WriteFrame(w, f.SizeBytes()+filterTailLen); err != nil {
		return n, err
	}
	const chunk = 4096 // words
	buf := make([]byte, 0, 8*min(chunk, len(f.bits.Words)))
	sum := uint32(0)
	for words := f.bits.Words; len(words) > 0; words = words[min(chunk, len(words)):] {
		buf = buf[:0]
		for _, word := range words[:min(chunk, len(words))] {
			buf = binary.LittleEndian.AppendUint64(buf, word)
		}
		sum = crc32.Update(sum, form.Castagnoli, buf)
		wrote, err := w.Write(buf)
		if n += int64(wrote); err != nil {
			return n, fmt.Errorf("bloom: write filter: %w", err)
		}
	}
	tail := f.tail()
	sum = crc32.Update(sum, form.Castagnoli, tail[:len(tail)-4])
	binary.LittleEndian.PutUint32(tail[len(tail)-4:], sum)
	wrote, err := w.Write(tail)
	if n += int64(wrote); err != nil {
		return n, fmt.Errorf("bloom: write filter: %w", err)
	}
	return n, nil
}

// ReadFrom reads from r what WriteTo wrote, and not a byte more, and makes f that filter: see
// UnmarshalBinary. So something else may follow in r. The memory that it takes grows with the
// bytes that arrive, up to three times as many. The error is io.EOF if r has ended, and
// io.ErrUnexpectedEOF if it ends inside of the filter; f then is as it was.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	return form.ReadFrom(r, f.UnmarshalBinary)
}

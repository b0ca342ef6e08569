package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// Constants of the serialized form. Part of the file format, never change.
const (
	kindFilter    = 3
	filterVersion = 1
	filterTailLen = 8 + trailerLen // the count and the trailer
)

// ErrNoHashID says that a filter cannot be serialized, because its hash function
// is the caller's own and has no id. A program that read it would not know how to
// hash its questions.
var ErrNoHashID = errors.New("the hash function has no id")

// beginOwn is head.begin for a filter whose hash function may be the caller's own.
func (h *hash128) beginOwn(filter []byte, kind, version byte, count uint64) []byte {
	b := (&head{keys: uint32(min(count, math.MaxUint32)), hasher: h.hasher}).begin(filter, kind, version)
	b[2] = byte(h.id())
	return b
}

// openOwn checks kind, version and hash in the trailer of filter, and returns the
// trailer and the hash function. The function is one of this package, or own if the ids
// are the same. own may be nil.
func openOwn(filter []byte, kind, version byte, own *ownHash) (trailer []byte, hash hash128, err error) {
	if len(filter) < trailerLen {
		return nil, hash, damage("%d bytes are less than a trailer", len(filter))
	}
	b := filter[len(filter)-trailerLen:]
	id, seed := HashID(b[2]), binary.LittleEndian.Uint64(b[20:])
	switch {
	case b[0] != kind:
		return nil, hash, unknown("kind", uint64(b[0]))
	case b[1] != version:
		return nil, hash, unknown("version", uint64(b[1]))
	case own != nil && own.id == id && id >= FirstOwnHashID && seed == 0:
		return b, hash128{own: own}, nil
	}
	hasher, err := NewHasher(id, seed)
	if err != nil {
		return nil, hash, fmt.Errorf("bloom: open filter: %w", err)
	}
	return b, hash128{hasher: hasher}, nil
}

// checkSum compares the checksum at the end of filter. Requires: filter has a trailer.
func checkSum(filter []byte) error {
	if want, got := binary.LittleEndian.Uint32(filter[len(filter)-4:]), checksum(filter); got != want {
		return damage("checksum %08x, stored %08x", got, want)
	}
	return nil
}

// tail returns the bytes that follow the words:
//
//	count
//	 0    1       2    3 4 8    12 20   28
//	|kind|version|hash|k|0|keys|m |seed|crc32c|
//
// keys is the count, or 2^32 - 1 if the count is larger. The caller fills in the checksum.
func (f *Filter) tail() []byte {
	b := make([]byte, filterTailLen)
	binary.LittleEndian.PutUint64(b, f.count)
	t := f.hash.beginOwn(b, kindFilter, filterVersion, f.count)
	t[3] = byte(f.k)
	binary.LittleEndian.PutUint64(t[12:], f.m)
	return b
}

// canWrite returns an error that says why f has no serialized form, or nil if it has one.
func (f *Filter) canWrite() error {
	switch {
	case f.k == 0:
		return errors.New("bloom: write filter: it was not made by New")
	case f.hash.id() == 0:
		return fmt.Errorf("bloom: write filter: %w", ErrNoHashID)
	}
	return nil
}

// AppendBinary appends the serialized form to dst and returns the longer slice: the words,
// 8 bytes of Count and a trailer of 32 bytes. It is the same on every machine. An error
// leaves dst as it was. It is ErrNoHashID, or says that f is a zero Filter.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if err := f.canWrite(); err != nil {
		return dst, err
	}
	from := len(dst)
	for _, w := range f.words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	dst = append(dst, f.tail()...)
	seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) {
	return f.AppendBinary(make([]byte, 0, len(f.words)*8+filterTailLen))
}

// UnmarshalBinary makes f the filter whose serialized form is b, all of b. It copies the
// bytes. An error is ErrDamaged or ErrUnknown, and leaves f as it was. The caller must then
// take every key for one that may be there.
//
// A filter with a Hash of the caller's own can only be read into a Filter that was made
// with the same HashID. f keeps that function, and its m and k become those of b.
func (f *Filter) UnmarshalBinary(b []byte) error {
	t, hash, err := openOwn(b, kindFilter, filterVersion, f.hash.own)
	if err != nil {
		return err
	}
	m, k := binary.LittleEndian.Uint64(t[12:]), int(t[3])
	body := len(b) - filterTailLen
	if body < 0 || m != uint64(body)*8 || body%8 != 0 {
		return damage("%d bits in %d bytes", m, len(b))
	}
	if err := checkSum(b); err != nil {
		return err
	}
	count := binary.LittleEndian.Uint64(b[body:])
	switch reserved, keys := binary.LittleEndian.Uint32(t[4:]), binary.LittleEndian.Uint32(t[8:]); {
	case reserved != 0:
		return damage("reserved bytes are %#x", reserved)
	case k < 1 || k > MaxProbes || m == 0:
		return damage("%d probes, %d bits", k, m)
	case uint64(keys) != min(count, math.MaxUint32):
		return damage("%d keys, %d counted", keys, count)
	}
	*f = Filter{words: decodeWords(b[:body]), m: m, k: k, count: count, hash: hash}
	return nil
}

func decodeWords(b []byte) []uint64 {
	words := make([]uint64, len(b)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words
}

// WriteTo writes the serialized form, the bytes of MarshalBinary. It writes 32 KiB at a
// time and does not hold a copy of the whole.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if err := f.canWrite(); err != nil {
		return 0, err
	}
	const chunk = 4096 // words
	buf := make([]byte, 0, 8*min(chunk, len(f.words)))
	sum := uint32(0)
	for words := f.words; len(words) > 0; words = words[min(chunk, len(words)):] {
		buf = buf[:0]
		for _, word := range words[:min(chunk, len(words))] {
			buf = binary.LittleEndian.AppendUint64(buf, word)
		}
		sum = crc32.Update(sum, castagnoli, buf)
		wrote, err := w.Write(buf)
		if n += int64(wrote); err != nil {
			return n, fmt.Errorf("bloom: write filter: %w", err)
		}
	}
	tail := f.tail()
	sum = crc32.Update(sum, castagnoli, tail[:len(tail)-4])
	binary.LittleEndian.PutUint32(tail[len(tail)-4:], sum)
	wrote, err := w.Write(tail)
	if n += int64(wrote); err != nil {
		return n, fmt.Errorf("bloom: write filter: %w", err)
	}
	return n, nil
}

// ReadFrom reads to the end of r, as an io.ReaderFrom does, and makes f the filter that it
// has read: see UnmarshalBinary. The memory that it takes grows with the bytes that
// arrive, up to three times as many.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return int64(len(b)), fmt.Errorf("bloom: read filter: %w", err)
	}
	return int64(len(b)), f.UnmarshalBinary(b)
}

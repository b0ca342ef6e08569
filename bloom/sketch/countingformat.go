package sketch

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"github.com/shaledb/shale/bloom/internal/bitarray"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Constants of the serialized form. Part of the file format, never change.
const (
	countingVersion = 1
	countingTail    = 8 + form.TrailerLen // bytes that follow the lines
)

// AppendBinary appends the serialized filter to dst: its lines, the number of keys
// in 8 bytes, and the trailer:
//
//	 0    1       2    3 4    8    12    16   20   28
//	|kind|version|hash|k|0   |keys|lines|0   |seed|crc32c|
//
// For the zero Counting it returns an error and dst as it was.
func (f *Counting) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.lines) == 0 {
		return dst, errors.New("bloom: write filter: it was not made by NewCounting")
	}
	from := len(dst)
	for i := range f.lines {
		for _, w := range f.lines[i] {
			dst = binary.LittleEndian.AppendUint64(dst, w)
		}
	}
	dst = binary.LittleEndian.AppendUint64(dst, f.count)
	dst = append(dst, make([]byte, form.TrailerLen)...)
	b := begin(dst[from:], form.KindCounting, countingVersion, f.count, f.hasher)
	b[3] = byte(f.k)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(f.lines)))
	form.Seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized filter: see AppendBinary.
func (f *Counting) MarshalBinary() ([]byte, error) {
	return f.AppendBinary(make([]byte, 0, f.SizeBytes()+countingTail))
}

// UnmarshalBinary makes f the filter that MarshalBinary wrote as b, with its hash
// function. It copies b, and takes as much memory. The error is ErrUnknown or
// ErrDamaged; f then is as it was.
func (f *Counting) UnmarshalBinary(b []byte) error {
	g, err := OpenCounting(b)
	if err != nil {
		return err
	}
	g.own()
	*f = *g
	return nil
}

// OpenCounting returns the filter that MarshalBinary wrote as b. It keeps b and does not copy
// it: b must not change while the filter is in use. The filter copies its counters when it is
// changed for the first time, and never changes b. If b does not begin at an address that 8
// divides, or on a big-endian machine, it copies them at once. Every byte is checked: the
// errors are those of UnmarshalBinary.
func OpenCounting(b []byte) (*Counting, error) {
	t, err := trailerOf(b, form.KindCounting, countingVersion)
	if err != nil {
		return nil, err
	}
	lines := binary.LittleEndian.Uint32(t[12:])
	if want := uint64(lines)*lineBytes + countingTail; want != uint64(len(b)) {
		return nil, form.Damage("%d lines of counters in %d bytes", lines, len(b))
	}
	var h head
	if err := h.open(b); err != nil {
		return nil, err
	}
	k, count := int(t[3]), binary.LittleEndian.Uint64(b[len(b)-countingTail:])
	zero := binary.LittleEndian.Uint32(t[4:]) | binary.LittleEndian.Uint32(t[16:])
	switch {
	case k < countingMinK || k > countingMaxK || lines < 1 || lines > maxCountingLines:
		return nil, form.Damage("%d lines, %d counters a key", lines, k)
	case zero != 0:
		return nil, form.Damage("reserved bytes are %#x", zero)
	case uint64(h.keys) != min(count, math.MaxUint32):
		return nil, form.Damage("%d keys, and %d in the trailer", count, h.keys)
	}
	words, shared := bitarray.WordsIn(b[:int(lines)*lineBytes])
	return &Counting{lines: linesOf(words), k: k, hasher: h.hasher, count: count, shared: shared}, nil
}

// linesOf returns words as lines. Requires: there is a whole number of lines, and at least one.
func linesOf(words []uint64) []countingLine {
	return unsafe.Slice((*countingLine)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8/lineBytes)
}

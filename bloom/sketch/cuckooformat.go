package sketch

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Constants of the serialized form. Part of the file format, never change.
const (
	cuckooVersion = 1
	stashedBytes  = 8 // of a stash entry: bucket in the low 4 bytes, fingerprint in the high 4
)

// AppendBinary appends the serialized filter to dst: its buckets, the stash, and
// the trailer:
//
//	 0    1       2    3     4     5    8    12      16   20   28
//	|kind|version|hash|width|stash|0   |keys|buckets|0   |seed|crc32c|
//
// For the zero Cuckoo it returns an error and dst as it was.
func (f *Cuckoo) AppendBinary(dst []byte) ([]byte, error) {
	if f.buckets == 0 {
		return dst, errors.New("bloom: write filter: it was not made by NewCuckoo")
	}
	from := len(dst)
	dst = append(dst, f.table[:f.buckets*f.lanes.bytes()]...)
	for _, s := range f.stash[:f.waiting] {
		dst = binary.LittleEndian.AppendUint64(dst, s.bucket|s.fingerprint<<32)
	}
	dst = append(dst, make([]byte, form.TrailerLen)...)
	b := begin(dst[from:], form.KindCuckoo, cuckooVersion, f.count, f.hasher)
	b[3], b[4] = byte(f.lanes.width), byte(f.waiting)
	binary.LittleEndian.PutUint32(b[12:], uint32(f.buckets))
	form.Seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized filter: see AppendBinary.
func (f *Cuckoo) MarshalBinary() ([]byte, error) {
	return f.AppendBinary(make([]byte, 0, len(f.table)+cuckooStash*stashedBytes+form.TrailerLen))
}

// UnmarshalBinary makes f the filter that MarshalBinary wrote as b, with its hash
// function. It copies b, and takes as much memory. The error is ErrUnknown or
// ErrDamaged; f then is as it was.
func (f *Cuckoo) UnmarshalBinary(b []byte) error {
	g, err := OpenCuckoo(b)
	if err != nil {
		return err
	}
	g.own()
	*f = *g
	return nil
}

// OpenCuckoo returns the filter that MarshalBinary wrote as b. It keeps b and does not copy
// it: b must not change while the filter is in use. The filter copies its places when one of
// them is changed for the first time, and never changes b. Every byte is checked: the errors
// are those of UnmarshalBinary.
func OpenCuckoo(b []byte) (*Cuckoo, error) {
	t, err := trailerOf(b, form.KindCuckoo, cuckooVersion)
	if err != nil {
		return nil, err
	}
	width, waiting, buckets := int(t[3]), int(t[4]), uint64(binary.LittleEndian.Uint32(t[12:]))
	if !validFingerprint(width) || waiting > cuckooStash || buckets < 1 || buckets > maxCuckooBuckets {
		return nil, form.Damage("%d buckets, %d-bit fingerprints, %d in the stash", buckets, width, waiting)
	}
	l := lanesOf(width)
	if want := buckets*l.bytes() + uint64(waiting)*stashedBytes + form.TrailerLen; want != uint64(len(b)) {
		return nil, form.Damage("%d buckets and %d stashed fingerprints in %d bytes", buckets, waiting, len(b))
	}
	var h head
	if err := h.open(b); err != nil {
		return nil, err
	}
	if zero := uint32(t[5]) | uint32(t[6]) | uint32(t[7]) | binary.LittleEndian.Uint32(t[16:]); zero != 0 {
		return nil, form.Damage("reserved bytes are %#x", zero)
	}
	// The trailer follows the buckets, so that the last one can be loaded as 8 bytes too.
	g := &Cuckoo{table: b[:buckets*l.bytes()+8-l.bytes()], buckets: buckets, lanes: l, hasher: h.hasher, shared: true}
	rest := b[buckets*l.bytes():]
	for g.waiting < waiting {
		s := binary.LittleEndian.Uint64(rest[g.waiting*stashedBytes:])
		entry := stashed{bucket: s & math.MaxUint32, fingerprint: s >> 32}
		if entry.bucket >= buckets || entry.fingerprint < 1 || entry.fingerprint > l.most {
			return nil, form.Damage("stashed fingerprint %#x for bucket %d of %d", entry.fingerprint, entry.bucket, buckets)
		}
		g.stash[g.waiting] = entry
		g.waiting++
	}
	if g.count = g.taken() + uint64(waiting); uint64(h.keys) != min(g.count, math.MaxUint32) {
		return nil, form.Damage("%d fingerprints, and %d in the trailer", g.count, h.keys)
	}
	return g, nil
}

// taken counts the places of the table that are not free.
func (f *Cuckoo) taken() (n uint64) {
	for bucket := range f.buckets {
		for places := f.load(bucket) << (64 - bucketSlots*f.lanes.width); places != 0; places <<= f.lanes.width {
			if places>>(64-f.lanes.width) != 0 {
				n++
			}
		}
	}
	return n
}

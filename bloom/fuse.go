package bloom

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A Fuse is a read-only binary fuse filter (Graf and Lemire 2022): a row of fingerprints
// of 4 to 16 bits. Each key has three places in the row, and the xor of the fingerprints
// there is the key's own fingerprint. An absent key passes with the probability 2^-r,
// where r is the number of bits of a fingerprint. A filter has about 1.13 · r bits a
// key. At 10 bits a key, 0.39 % pass where a Blocked lets pass 0.96 %, and at 16 bits
// 0.006 % where it lets pass 0.054 %.
//
// The price is building. It takes three to five times as long as building a Blocked (about
// 23 ns a key), and 14 to 26 bytes of memory a key while it runs. A [StaticBuilder] keeps that
// memory for the next filter. A question takes as long as one to a Blocked in cache, and
// least with 8 or 16 bits, with which each fingerprint has whole bytes. Out of cache it costs
// three cache lines, which are loaded in parallel.
//
// Like a Blocked it probes its serialized bytes where they lie, and any number of
// goroutines may ask it at once.
//
// [AppendStatic] and StaticBuilder make the bytes of a Fuse, and [OpenFuse] opens them. The zero Fuse answers
// maybe to every key. It is for UnmarshalBinary and UnmarshalText.
type Fuse struct {
	// Constant after construction. bytes ends with the fuse seed, and so is 8 bytes longer
	// than the fingerprints: no load of 4 bytes passes its end.
	bytes  []byte
	seed   uint64
	span   uint64 // number of places where the first of a key's three may be: segments · length
	length uint64 // places of a segment, a power of two
	r      uint64 // bits of a fingerprint
	mask   uint32 // the low r bits
	head   head
}

// OpenFuse returns the filter whose serialized form is b, all of b. It keeps b and
// does not copy it. As with [OpenBlocked], the hash function is Hash, and the errors are
// the same: a filter that cannot be read means maybe, never no. [OpenStatic] opens
// filters with other functions.
func OpenFuse(b []byte) (*Fuse, error) { return openFuse(b, onlyMurmur3) }

// openFuse is OpenFuse for the hash functions that the caller accepts.
func openFuse(b []byte, accepted accepts) (*Fuse, error) {
	t, err := parseFuse(b, int64(len(b)), accepted)
	if err != nil {
		return nil, err
	}
	return newFuse(b, t), nil
}

// newFuse returns a filter that probes b, which ends with the trailer t.
func newFuse(b []byte, t fuseTrailer) *Fuse {
	body := b[: len(b)-form.TrailerLen : len(b)-form.TrailerLen]
	return &Fuse{
		bytes:  body,
		seed:   binary.LittleEndian.Uint64(body[len(body)-fuseSeedLen:]),
		span:   t.segments * t.length,
		length: t.length,
		r:      t.r,
		mask:   1<<t.r - 1,
		head:   t.head,
	}
}

// MayContainHash reports whether a key with this hash (see Hash) may be in the filter. False is
// certain. It allocates nothing.
func (f *Fuse) MayContainHash(h uint64) bool {
	h = form.Finish(h + f.seed)
	first, _ := bits.Mul64(h, f.span)
	second, third := fusePlaces(h, first, f.length)
	// First is below second, and second below third. So if third is in the row, all are: one
	// check is enough, which only the zero Fuse fails. The compiler doesn't know that and
	// would make six. There are no calls either, which would need a frame. Both together
	// are a fifth of the time.
	own, row, size := uint32(h)^uint32(h>>32), unsafe.Pointer(unsafe.SliceData(f.bytes)), uint64(len(f.bytes))
	switch f.r {
	case 8:
		if third >= size {
			return true
		}
		return *(*byte)(unsafe.Add(row, first))^*(*byte)(unsafe.Add(row, second))^*(*byte)(unsafe.Add(row, third)) == byte(own)
	case 16:
		if third >= size/2 {
			return true
		}
		return load16(row, 2*first)^load16(row, 2*second)^load16(row, 2*third) == uint16(own)
	}
	first, second, third = first*f.r, second*f.r, third*f.r // offsets in bits
	if third>>3+4 > size {
		return true
	}
	x := load32(row, first>>3)>>(first&7) ^ load32(row, second>>3)>>(second&7) ^ load32(row, third>>3)>>(third&7)
	return (x^own)&f.mask == 0
}

// load16 and load32 return the little-endian number at an offset in bytes, of any alignment.
func load16(row unsafe.Pointer, i uint64) uint16 {
	return binary.LittleEndian.Uint16((*[2]byte)(unsafe.Add(row, i))[:])
}

func load32(row unsafe.Pointer, i uint64) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(row, i))[:])
}

// Count returns the number of hashes that the filter was built from. Equal hashes count more
// than once. 2^32 - 1 means that number or more.
func (f *Fuse) Count() uint64 { return uint64(f.head.keys) }

// SizeBytes returns the memory that the filter keeps: the serialized bytes.
func (f *Fuse) SizeBytes() int { return len(f.bytes) + form.TrailerLen }

// Bits returns how many bits a fingerprint has.
func (f *Fuse) Bits() int { return int(f.r) }

// BitsPerKey returns the bits of memory for each key, without the trailer. It is the
// number that [FuseBits] predicts.
func (f *Fuse) BitsPerKey() float64 {
	return float64(len(f.bytes)) * 8 / math.Max(float64(f.head.keys), 1)
}

// FPR returns the share of absent keys that are expected to pass.
func (f *Fuse) FPR() float64 { return FuseFPR(int(f.r)) }

// Geometry of the fuse filter. Part of the file format, never changes.
const (
	fuseVersion   = 1
	fuseSeedLen   = 8
	minFuse       = 4       // bits of a fingerprint
	maxFuse       = 16      // starts at bit 7 of a byte at most, so it fits into a load of 32 bits
	maxFuseLength = 1 << 18 // places of a segment
)

// A fuseTrailer is the trailer of a fuse filter:
//
//	 0    1       2    3 4 8    12       16     20   28
//	|kind|version|hash|r|0|keys|segments|length|seed|crc32c|
//
// Its seed is the seed of the hash function. The filter's own seed lies in front
// of the trailer.
type fuseTrailer struct {
	head
	r        uint64 // bits of a fingerprint
	segments uint64 // in which first places lie; two more segments follow
	length   uint64 // places of a segment
}

// bodySize returns the length in bytes of the packed fingerprints and of the seed behind
// them. It does not overflow if length is at most maxFuseLength.
func (t *fuseTrailer) bodySize() uint64 {
	return ((t.segments+2)*t.length*t.r+63)/64*8 + fuseSeedLen
}

// put writes t over the last bytes of filter. Requires: all other bytes have
// their final values.
func (t *fuseTrailer) put(filter []byte) {
	b := t.begin(filter, form.KindFuse, fuseVersion)
	b[3] = byte(t.r)
	binary.LittleEndian.PutUint32(b[12:], uint32(t.segments))
	binary.LittleEndian.PutUint32(b[16:], uint32(t.length))
	form.Seal(filter)
}

// parseFuse reads and checks the trailer at the end of filter, as parseTrailer does and in its
// order. MayContainHash relies on three of the checks: length is a power of two, there
// is at least one segment, and there are fingerprints for all places that a key can have.
func parseFuse(filter []byte, size int64, accepted accepts) (fuseTrailer, error) {
	b, err := trailerOf(filter, form.KindFuse, fuseVersion, accepted)
	if err != nil {
		return fuseTrailer{}, err
	}
	t := fuseTrailer{
		r:        uint64(b[3]),
		segments: uint64(binary.LittleEndian.Uint32(b[12:])),
		length:   uint64(binary.LittleEndian.Uint32(b[16:])),
	}
	if t.length > maxFuseLength || t.bodySize()+form.TrailerLen != uint64(size) {
		return fuseTrailer{}, form.Damage("%d + 2 segments of %d places of %d bits in %d bytes", t.segments, t.length, t.r, size)
	}
	if err := t.open(filter, size); err != nil {
		return fuseTrailer{}, err
	}
	switch reserved := binary.LittleEndian.Uint32(b[4:]); {
	case reserved != 0:
		return fuseTrailer{}, form.Damage("reserved bytes are %#x", reserved)
	case t.r < minFuse || t.r > maxFuse:
		return fuseTrailer{}, form.Damage("fingerprints of %d bits", t.r)
	case t.segments == 0 || bits.OnesCount64(t.length) != 1:
		return fuseTrailer{}, form.Damage("%d segments of %d places", t.segments, t.length)
	}
	return t, nil
}

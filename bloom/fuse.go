package bloom

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A Fuse is a read-only binary fuse filter (Graf and Lemire 2022): a row of
// fingerprints of 4 to 16 bits, of which each key has three places whose
// fingerprints, xored, are its own. An absent key passes with the chance 2^-r for
// some 1.13 · r bits a key: at 10 bits 0.39 %, where a Blocked has 0.96, and at
// 16 bits 0.006 %, where it has 0.054. The price is building, ten times as long
// (40 to 60 ns a key) and with 36 bytes a key of memory for the while. A question
// takes as long as one to a Blocked in cache, and costs three cache lines, loaded
// side by side, out of it.
//
// Like Blocked it probes the serialized bytes where they lie, and any number of
// goroutines may ask it at once.
//
// AppendStatic makes the bytes of one, and OpenFuse opens them. The zero Fuse says
// maybe to every key. It is for UnmarshalBinary and UnmarshalText.
type Fuse struct {
	// Constant after construction. bytes ends with the fuse seed and so is 8
	// bytes longer than the fingerprints: no load of 4 runs over its end.
	bytes  []byte
	seed   uint64
	span   uint64 // first places: segments · length
	length uint64 // of a segment, a power of two
	r      uint64
	mask   uint32 // of a fingerprint
	head   head
}

// OpenFuse returns the filter whose serialized form is b, exactly. The bytes are
// kept, not copied. Errors and hash function are those of OpenBlocked: a filter
// that cannot be read means maybe, never no, and OpenStatic takes other functions
// than Hash.
func OpenFuse(b []byte) (*Fuse, error) { return openFuse(b, onlyMurmur3) }

func openFuse(b []byte, accepted accepts) (*Fuse, error) {
	t, err := parseFuse(b, accepted)
	if err != nil {
		return nil, err
	}
	body := b[: len(b)-trailerLen : len(b)-trailerLen]
	return &Fuse{
		bytes:  body,
		seed:   binary.LittleEndian.Uint64(body[len(body)-fuseSeedLen:]),
		span:   t.segments * t.length,
		length: t.length,
		r:      t.r,
		mask:   1<<t.r - 1,
		head:   t.head,
	}, nil
}

// MayContain tells whether a key with this hash (see Hash) may be in the
// filter. False is certain. It allocates nothing.
func (f *Fuse) MayContain(h uint64) bool {
	h = finish(h + f.seed)
	first, _ := bits.Mul64(h, f.span)
	second := (first + f.length) ^ (h >> 18 & (f.length - 1))
	third := (first + 2*f.length) ^ (h & (f.length - 1))
	// In bits from here on.
	first, second, third = first*f.r, second*f.r, third*f.r
	if first>>3+4 > uint64(len(f.bytes)) { // the zero Fuse; this test saves that of the slice
		return true
	}
	x := binary.LittleEndian.Uint32(f.bytes[first>>3:first>>3+4]) >> (first & 7)
	x ^= binary.LittleEndian.Uint32(f.bytes[second>>3:second>>3+4]) >> (second & 7)
	x ^= binary.LittleEndian.Uint32(f.bytes[third>>3:third>>3+4]) >> (third & 7)
	return (x^uint32(h)^uint32(h>>32))&f.mask == 0
}

// Keys returns how many hashes the filter was built from, equal ones counted too;
// 2^32 - 1 means that many or more.
func (f *Fuse) Keys() uint64 { return uint64(f.head.keys) }

// SizeBytes returns the memory that the filter keeps: the serialized bytes.
func (f *Fuse) SizeBytes() int { return len(f.bytes) + trailerLen }

// Bits returns how many bits a fingerprint has.
func (f *Fuse) Bits() int { return int(f.r) }

// BitsPerKey returns the bits of memory for each key, without the trailer: what
// FuseBits says.
func (f *Fuse) BitsPerKey() float64 {
	return float64(len(f.bytes)) * 8 / math.Max(float64(f.head.keys), 1)
}

// PredictedFPR returns the share of absent keys that MayContain is expected to
// let pass.
func (f *Fuse) PredictedFPR() float64 { return FuseFPR(int(f.r)) }

// Geometry of the fuse filter. Part of the file format, never changes.
const (
	kindFuse      = 2
	fuseVersion   = 1
	fuseSeedLen   = 8
	minFuse       = 4       // bits of a fingerprint
	maxFuse       = 16      // with 7 bits before it, it still is in a load of 32
	maxFuseLength = 1 << 18 // places of a segment
)

// A fuseTrailer is that of a fuse filter:
//
//	 0    1       2    3 4 8    12       16     20   28
//	|kind|version|hash|r|0|keys|segments|length|seed|crc32c|
//
// The seed there is of the hash function; that of the filter stands in front of
// the trailer.
type fuseTrailer struct {
	head
	r        uint64 // bits of a fingerprint
	segments uint64 // where first places may lie; two more follow
	length   uint64 // places of a segment
}

// bodySize is the length of the packed fingerprints and the seed behind them. It
// fits if length was checked.
func (t *fuseTrailer) bodySize() uint64 {
	return ((t.segments+2)*t.length*t.r+63)/64*8 + fuseSeedLen
}

// put writes t over the last bytes of filter, the rest of which is final.
func (t *fuseTrailer) put(filter []byte) {
	b := t.begin(filter, kindFuse, fuseVersion)
	b[3] = byte(t.r)
	binary.LittleEndian.PutUint32(b[12:], uint32(t.segments))
	binary.LittleEndian.PutUint32(b[16:], uint32(t.length))
	seal(filter)
}

// parseFuse reads and checks the trailer at the end of filter, in parseTrailer's
// order. MayContain relies on it: a power of two, at least one segment, and as
// many fingerprints as the places reach.
func parseFuse(filter []byte, accepted accepts) (fuseTrailer, error) {
	b, err := trailerOf(filter, kindFuse, fuseVersion, accepted)
	if err != nil {
		return fuseTrailer{}, err
	}
	t := fuseTrailer{
		r:        uint64(b[3]),
		segments: uint64(binary.LittleEndian.Uint32(b[12:])),
		length:   uint64(binary.LittleEndian.Uint32(b[16:])),
	}
	if t.length > maxFuseLength || t.bodySize()+trailerLen != uint64(len(filter)) {
		return fuseTrailer{}, damage("%d + 2 segments of %d places of %d bits in %d bytes", t.segments, t.length, t.r, len(filter))
	}
	if err := t.open(filter); err != nil {
		return fuseTrailer{}, err
	}
	switch reserved := binary.LittleEndian.Uint32(b[4:]); {
	case reserved != 0:
		return fuseTrailer{}, damage("reserved bytes are %#x", reserved)
	case t.r < minFuse || t.r > maxFuse:
		return fuseTrailer{}, damage("fingerprints of %d bits", t.r)
	case t.segments == 0 || bits.OnesCount64(t.length) != 1:
		return fuseTrailer{}, damage("%d segments of %d places", t.segments, t.length)
	}
	return t, nil
}

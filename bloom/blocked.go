package bloom

import (
	"math"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A Blocked is a read-only blocked Bloom filter. It probes its serialized bytes where they
// lie, so that opening one allocates nothing but the Blocked itself. Any number of
// goroutines may ask it at once.
//
// A question costs one cache line of 64 bytes, whatever the number of probes, if the
// serialized filter starts at an address that 64 divides. From 14 bits a key up there
// are two units, which are independent filters of the same keys. Together they have half
// the false positives of one filter of the same size. The second is asked only for the
// few keys that pass the first.
//
// The zero Blocked answers maybe to every key. It is for UnmarshalBinary and UnmarshalText.
type Blocked struct {
	// Constant after construction.
	first  unit
	second unit // with 0 lines if there is none
	keys   uint32
	size   int
}

// OpenBlocked returns the filter whose serialized form is b, all of b. It keeps b and does
// not copy it: b must not change while the filter is in use.
//
// Every byte is checked. The error is ErrUnknown for a filter of another kind or version,
// or of another hash function than Hash (OpenStatic opens those); it is ErrDamaged for
// damaged bytes. Test for both with errors.Is. Either way any key may be there: a filter
// that cannot be read means maybe, never no.
func OpenBlocked(b []byte) (*Blocked, error) {
	t, err := parseTrailer(b, onlyMurmur3)
	if err != nil {
		return nil, err
	}
	return newBlocked(b, t), nil
}

// newBlocked returns a filter that probes b. t is the trailer of b, and has been checked.
func newBlocked(b []byte, t trailer) *Blocked {
	f := &Blocked{keys: t.keys, size: len(b)}
	// The lines' lengths add up to len(b), which is an int.
	end := int(t.lines[0]) * lineBytes
	f.first = unit{bytes: b[:end:end], lines: uint64(t.lines[0]), k: t.k[0]}
	if t.units == 2 {
		all := len(b) - form.TrailerLen
		f.second = unit{bytes: b[end:all:all], lines: uint64(t.lines[1]), k: t.k[1]}
	}
	return f
}

// MayContainHash reports whether a key with this hash (see Hash) may be in the filter. False is
// certain. It allocates nothing.
func (f *Blocked) MayContainHash(h uint64) bool {
	o := f.first.line(h) * lineBytes
	end := o + lineBytes
	if o > end || end > uint64(len(f.first.bytes)) { // the zero Blocked; saves the slice's checks
		return true
	}
	line := (*[lineBytes]byte)(f.first.bytes[o:end])
	return hasFirst(line, h) && f.hasRest(line, h)
}

// hasRest tests everything but the first probes of the first unit. About one
// absent key in ten gets here.
//
//go:noinline
func (f *Blocked) hasRest(line *[lineBytes]byte, h uint64) bool {
	if !hasRest(line, h, f.first.k) {
		return false
	}
	if f.second.lines == 0 {
		return true
	}
	h = secondHash(h)
	line = f.second.at(h)
	return hasFirst(line, h) && hasRest(line, h, f.second.k)
}

// Touch loads a byte of the cache line that MayContainHash(h) will look at first, and returns
// it. It is for a caller that asks several filters, and does so much work between the
// questions that the processor does not run ahead to the next one. Such a caller can touch
// all lines first: then the cache misses overlap.
//
// Filters that are asked in a plain loop overlap without it: an absent key that is
// asked of five filters out of cache takes 240 ns, and 246 ns if the lines are
// touched first; in cache 44 and 53. The byte means nothing. It is returned so that
// the compiler keeps the load.
func (f *Blocked) Touch(h uint64) byte {
	if o := f.first.line(h) * lineBytes; o < uint64(len(f.first.bytes)) {
		return f.first.bytes[o]
	}
	return 0
}

// Count returns the number of hashes that the filter was built from. 2^32 - 1
// means that number or more.
func (f *Blocked) Count() uint64 { return uint64(f.keys) }

// SizeBytes returns the memory that the filter keeps: its serialized bytes, or, for the
// result of FirstUnit, the copied lines.
func (f *Blocked) SizeBytes() int { return f.size }

// Units returns how many units the filter has, 1 or 2.
func (f *Blocked) Units() int {
	if f.second.lines == 0 {
		return 1
	}
	return 2
}

// BitsPerKey returns how many bits of lines there are for each key. With few keys that is
// more than was asked for, because there is at least one line of 512 bits.
func (f *Blocked) BitsPerKey() float64 {
	return float64(f.first.lines+f.second.lines) * lineBits / math.Max(float64(f.keys), 1)
}

// FPR returns the share of absent keys that are expected to pass. It
// follows from the number of keys, lines and probes.
func (f *Blocked) FPR() float64 {
	if f.first.lines == 0 {
		return 1
	}
	p := unitFPR(float64(f.keys), float64(f.first.lines), f.first.k)
	if f.second.lines != 0 {
		p *= unitFPR(float64(f.keys), float64(f.second.lines), f.second.k)
	}
	return p
}

// FirstUnitBytes returns the SizeBytes that the result of FirstUnit has.
func (f *Blocked) FirstUnitBytes() int {
	if f.Units() == 1 {
		return f.size
	}
	return len(f.first.bytes)
}

// FirstUnit returns the filter without its second unit, in memory of its own, so that the
// bytes of f can be freed. It answers maybe to every key to which f answers maybe, and to
// more others: see its FPR. For a filter of one unit it returns f itself.
func (f *Blocked) FirstUnit() *Blocked {
	if f.Units() == 1 {
		return f
	}
	// The size is a whole number of lines. The allocator aligns such sizes to 64.
	return f.firstUnitIn(make([]byte, len(f.first.bytes)))
}

// firstUnitIn is FirstUnit with memory of the caller. Requires: f has two units,
// and mem is FirstUnitBytes long.
func (f *Blocked) firstUnitIn(mem []byte) *Blocked {
	g := &Blocked{first: f.first, keys: f.keys, size: len(f.first.bytes)}
	g.first.bytes = mem[:copy(mem, f.first.bytes):len(mem)]
	return g
}

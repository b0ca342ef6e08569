package bloom

import (
	"math"

	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
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
	units lines.Units
	keys  uint32
	size  int
}

// OpenBlocked returns the filter whose serialized form is b, all of b. It keeps b and does
// not copy it: b must not change while the filter is in use.
//
// Every byte is checked. The error is [ErrUnknown] for a filter of another kind or version,
// or of another hash function than Hash ([OpenStatic] opens those); it is [ErrDamaged] for
// damaged bytes. Test for both with errors.Is. Either way any key may be there: a filter
// that cannot be read means maybe, never no.
func OpenBlocked(b []byte) (*Blocked, error) {
	t, err := parseTrailer(b, int64(len(b)), onlyMurmur3)
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
	f.units.First = lines.Unit{Bytes: b[:end:end], Lines: uint64(t.lines[0]), K: t.k[0]}
	if t.units == 2 {
		all := len(b) - form.TrailerLen
		f.units.Second = lines.Unit{Bytes: b[end:all:all], Lines: uint64(t.lines[1]), K: t.k[1]}
	}
	return f
}

// MayContainHash reports whether a key with this hash (see Hash) may be in the filter. False is
// certain. It allocates nothing.
func (f *Blocked) MayContainHash(h uint64) bool { return f.units.Has(h) }

// Count returns the number of hashes that the filter was built from. 2^32 - 1
// means that number or more.
func (f *Blocked) Count() uint64 { return uint64(f.keys) }

// SizeBytes returns the memory that the filter keeps: its serialized bytes, or, for the
// result of FirstUnit, the copied lines.
func (f *Blocked) SizeBytes() int { return f.size }

// Units returns how many units the filter has, 1 or 2.
func (f *Blocked) Units() int {
	if f.units.Second.Lines == 0 {
		return 1
	}
	return 2
}

// BitsPerKey returns how many bits of lines there are for each key. With few keys that is
// more than was asked for, because there is at least one line of 512 bits.
func (f *Blocked) BitsPerKey() float64 {
	return float64(f.units.First.Lines+f.units.Second.Lines) * lineBits / math.Max(float64(f.keys), 1)
}

// FPR returns the share of absent keys that are expected to pass. It
// follows from the number of keys, lines and probes.
func (f *Blocked) FPR() float64 {
	if f.units.First.Lines == 0 {
		return 1
	}
	p := unitFPR(float64(f.keys), float64(f.units.First.Lines), f.units.First.K)
	if f.units.Second.Lines != 0 {
		p *= unitFPR(float64(f.keys), float64(f.units.Second.Lines), f.units.Second.K)
	}
	return p
}

// FirstUnitBytes returns the SizeBytes that the result of FirstUnit has.
func (f *Blocked) FirstUnitBytes() int {
	if f.Units() == 1 {
		return f.size
	}
	return len(f.units.First.Bytes)
}

// FirstUnit returns the filter without its second unit, in memory of its own, so that the
// bytes of f can be freed. It answers maybe to every key to which f answers maybe, and to
// more others: see its FPR. For a filter of one unit it returns f itself.
func (f *Blocked) FirstUnit() *Blocked {
	if f.Units() == 1 {
		return f
	}
	// The size is a whole number of lines. The allocator aligns such sizes to 64.
	return f.firstUnitIn(make([]byte, len(f.units.First.Bytes)))
}

// firstUnitIn is FirstUnit with memory of the caller. Requires: f has two units,
// and mem is FirstUnitBytes long.
func (f *Blocked) firstUnitIn(mem []byte) *Blocked {
	g := &Blocked{units: lines.Units{First: f.units.First}, keys: f.keys, size: len(f.units.First.Bytes)}
	g.units.First.Bytes = mem[:copy(mem, f.units.First.Bytes):len(mem)]
	return g
}

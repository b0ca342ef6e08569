package bloom

import "math"

// A Blocked is a read-only blocked Bloom filter. It probes the serialized
// bytes where they lie: opening one allocates nothing but itself, and it may
// be asked by any number of goroutines at once.
//
// A key costs one cache line of 64 bytes, whatever the number of probes, if
// the serialized filter starts at an address that 64 divides. From 14 bits a
// key on there are two units, which are independent filters of the same keys:
// together they have half the false positives of one filter of the same size,
// and the second is only looked at for the few keys that pass the first.
//
// The zero Blocked says maybe to every key. It is for UnmarshalBinary and
// UnmarshalText.
type Blocked struct {
	// Constant after construction.
	first  unit
	second unit // lines 0: none
	keys   uint32
	size   int
}

// OpenBlocked returns the filter whose serialized form is b, exactly. The
// bytes are kept, not copied: they must not change as long as the filter is in
// use.
//
// Every byte is checked. The error is ErrUnknown, for a filter of another
// kind, version or hash function than Hash (OpenStatic takes those), or
// ErrDamaged, both with errors.Is. Either way any key may be there: a filter
// that cannot be read means maybe, never no.
func OpenBlocked(b []byte) (*Blocked, error) {
	t, err := parseTrailer(b, onlyMurmur3)
	if err != nil {
		return nil, err
	}
	return newBlocked(b, t), nil
}

// newBlocked probes b, which t describes.
func newBlocked(b []byte, t trailer) *Blocked {
	f := &Blocked{keys: t.keys, size: len(b)}
	// The lines' lengths add up to len(b), which is an int.
	end := int(t.lines[0]) * lineBytes
	f.first = unit{bytes: b[:end:end], lines: uint64(t.lines[0]), k: t.k[0]}
	if t.units == 2 {
		all := len(b) - trailerLen
		f.second = unit{bytes: b[end:all:all], lines: uint64(t.lines[1]), k: t.k[1]}
	}
	return f
}

// MayContain tells whether a key with this hash (see Hash) may be in the
// filter. False is certain. It allocates nothing.
func (f *Blocked) MayContain(h uint64) bool {
	o := f.first.line(h) * lineBytes
	end := o + lineBytes
	if o > end || end > uint64(len(f.first.bytes)) { // the zero Blocked; this test saves those of the slice
		return true
	}
	line := (*[lineBytes]byte)(f.first.bytes[o:end])
	return hasFirst(line, h) && f.hasRest(line, h)
}

// hasRest tests everything but the first probes of the first unit. One absent
// key in ten or so gets here.
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

// Touch loads a byte of the cache line that MayContain(h) will look at first,
// and returns it. Who has to ask several filters, with work in between that the
// processor does not run ahead of, can touch all lines first: then the cache
// misses overlap. Filters that are asked in a plain loop overlap by themselves:
// an absent key asked of five filters out of cache takes 240 ns, with the lines
// touched first 246; in cache 44 and 53. The byte means nothing; it is returned
// so that the compiler keeps the load.
func (f *Blocked) Touch(h uint64) byte {
	if o := f.first.line(h) * lineBytes; o < uint64(len(f.first.bytes)) {
		return f.first.bytes[o]
	}
	return 0
}

// Keys returns how many hashes the filter was built from; 2^32 - 1 means that
// many or more.
func (f *Blocked) Keys() uint64 { return uint64(f.keys) }

// SizeBytes returns the memory that the filter keeps: the serialized bytes, or
// the copied lines for the result of FirstUnit.
func (f *Blocked) SizeBytes() int { return f.size }

// Units returns 1 or 2.
func (f *Blocked) Units() int {
	if f.second.lines == 0 {
		return 1
	}
	return 2
}

// BitsPerKey returns the bits of lines for each key, which for few keys is
// more than was asked for: there is at least one line of 512.
func (f *Blocked) BitsPerKey() float64 {
	return float64(f.first.lines+f.second.lines) * lineBits / math.Max(float64(f.keys), 1)
}

// PredictedFPR returns the share of absent keys that MayContain is expected to
// let pass, from the number of keys, lines and probes.
func (f *Blocked) PredictedFPR() float64 {
	if f.first.lines == 0 {
		return 1
	}
	p := unitFPR(float64(f.keys), float64(f.first.lines), f.first.k)
	if f.second.lines != 0 {
		p *= unitFPR(float64(f.keys), float64(f.second.lines), f.second.k)
	}
	return p
}

// FirstUnitBytes returns what SizeBytes of FirstUnit is.
func (f *Blocked) FirstUnitBytes() int {
	if f.Units() == 1 {
		return f.size
	}
	return len(f.first.bytes)
}

// FirstUnit returns the filter without its second unit, in memory of its own:
// when f is dropped, so are its bytes. It answers maybe to every key that f
// answers maybe to, and to as many others as PredictedFPR says. A filter of one
// unit is its own first unit.
func (f *Blocked) FirstUnit() *Blocked {
	if f.Units() == 1 {
		return f
	}
	// A whole number of lines: the allocator aligns such sizes to 64.
	return f.firstUnitIn(make([]byte, len(f.first.bytes)))
}

// firstUnitIn is FirstUnit of a filter of two units, in memory of FirstUnitBytes.
func (f *Blocked) firstUnitIn(mem []byte) *Blocked {
	g := &Blocked{first: f.first, keys: f.keys, size: len(f.first.bytes)}
	g.first.bytes = mem[:copy(mem, f.first.bytes):len(mem)]
	return g
}

package lines

import (
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Bytes is the size of a line of a blocked filter: 512 bits, a cache line.
const Bytes = form.LineBytes

// The number of probes of a blocked filter. They are fields of nine bits, of which a product of
// 64 bits has seven.
const (
	MinProbes = 3
	MaxProbes = 2 * fields
	fields    = 7
)

// Odd multipliers that turn a hash into probes. Part of the file format.
const (
	probeMul  = form.ProbeMul      // probes 0 to 6
	probeMul2 = 0xd6e8feb86659fd93 // probes 7 to 13
	unitMul   = 0xbf58476d1ce4e5b9 // SecondHash
)

// Place returns the index of the line of h among n lines: the high word of h · n. This needs
// no division, and n may exceed 32 bits.
func Place(h, n uint64) uint64 {
	hi, _ := bits.Mul64(h, n)
	return hi
}

// SecondHash returns the hash that the second unit of a filter uses in the place of h. Each of
// its steps can be undone, so different hashes stay different. The rotation brings the low bits
// to the top, which chooses the line. So the two units are independent.
func SecondHash(h uint64) uint64 { return bits.RotateLeft64((h^h>>29)*unitMul, 32) }

// secondProbes returns the word of probes 7 to 13. The xor brings those bits of h to the
// front that the first product has at its end. Without it the two products would be alike.
func secondProbes(h uint64) uint64 { return (h ^ h>>32) * probeMul2 }

// Has reports whether the first k probes of h are set in its line, one of n. Probe i, of the first
// seven, is the i-th field of nine bits, from the top, of h · probeMul. A field q stands for bit q&7 of
// byte q>>3 of the line. The other seven probes come from a second product:
//
//	h · probeMul:  63     54     45     36     27     18      9      0
//	               |probe0|probe1|probe2|probe3|probe4|probe5|probe6|-
//
// Requires: lines is n · Bytes long, n is at least 1, and k is MinProbes to MaxProbes.
func Has(lines []byte, n uint64, k uint32, h uint64) bool { return hasGo(lines, n, k, h) }

// A Unit is one blocked Bloom filter: a row of lines and a number of probes.
type Unit struct {
	Bytes []byte // Lines · 64; a reader does not change them
	Lines uint64 // at least 1
	K     uint32 // MinProbes to MaxProbes
}

// Units is a blocked filter of one unit or of two. The zero value says maybe to every hash.
type Units struct {
	First, Second Unit // Second has 0 lines if there is none
}

// Has reports whether both units have h, the second by its SecondHash.
func (u *Units) Has(h uint64) bool { return hasUnits(u, h) }

// hasUnitsGo is Units.Has in Go.
func hasUnitsGo(u *Units, h uint64) bool {
	if u.First.Lines == 0 {
		return true
	}
	return hasGo(u.First.Bytes, u.First.Lines, u.First.K, h) &&
		(u.Second.Lines == 0 || hasGo(u.Second.Bytes, u.Second.Lines, u.Second.K, SecondHash(h)))
}

// at returns the line of h.
func at(lines []byte, n, h uint64) *[Bytes]byte {
	o := Place(h, n) * Bytes
	return (*[Bytes]byte)(lines[o : o+Bytes])
}

// hasGo tests the first three bits with one branch. A loop that returns at the first
// missing bit returns after an unpredictable number of probes, and a mispredicted branch costs more
// than two loads: 14 ns for an absent key instead of 7. A test of all bits without a branch is as fast
// in the cache. Out of it, there are too many instructions for the processor to run ahead to the
// next question: an absent key takes 64 ns instead of 40.
func hasGo(lines []byte, n uint64, k uint32, h uint64) bool {
	line := at(lines, n, h)
	p := h * probeMul
	a := line[p>>58] >> (p >> 55 & 7) & (line[p>>49&63] >> (p >> 46 & 7)) & (line[p>>40&63] >> (p >> 37 & 7))
	return a&1 != 0 && hasAll(line, h, k)
}

// hasAll reports whether the first k probes of h are set in its line. No branch depends on the line,
// only on k, and a filter has one k.
func hasAll(line *[Bytes]byte, h uint64, k uint32) bool {
	p := h * probeMul
	a := line[p>>58] >> (p >> 55 & 7) & (line[p>>49&63] >> (p >> 46 & 7)) & (line[p>>40&63] >> (p >> 37 & 7))
	if k > 3 {
		a &= line[p>>31&63] >> (p >> 28 & 7)
	}
	if k > 4 {
		a &= line[p>>22&63] >> (p >> 19 & 7)
	}
	if k > 5 {
		a &= line[p>>13&63] >> (p >> 10 & 7)
	}
	if k > 6 {
		a &= line[p>>4&63] >> (p >> 1 & 7)
	}
	if k > fields {
		p = secondProbes(h)
		for n := k - fields; n > 0; n-- {
			a &= line[p>>58] >> (p >> 55 & 7)
			p <<= 9
		}
	}
	return a&1 != 0
}

// add sets the bits that hasAll tests. It is written without a loop over the first seven probes: a loop
// costs 1.5 ns a key.
func add(line *[Bytes]byte, h uint64, k uint32) {
	p := h * probeMul
	line[p>>58] |= 1 << (p >> 55 & 7)
	line[p>>49&63] |= 1 << (p >> 46 & 7)
	line[p>>40&63] |= 1 << (p >> 37 & 7)
	if k > 3 {
		line[p>>31&63] |= 1 << (p >> 28 & 7)
	}
	if k > 4 {
		line[p>>22&63] |= 1 << (p >> 19 & 7)
	}
	if k > 5 {
		line[p>>13&63] |= 1 << (p >> 10 & 7)
	}
	if k > 6 {
		line[p>>4&63] |= 1 << (p >> 1 & 7)
	}
	if k <= fields {
		return
	}
	p = secondProbes(h)
	for n := k - fields; n > 0; n-- {
		line[p>>58] |= 1 << (p >> 55 & 7)
		p <<= 9
	}
}

// hasManyGo is HasMany in Go.
func hasManyGo(lines []byte, n uint64, k uint32, hashes []uint64, out []bool) {
	var places [atOnce]uint64
	for len(out) > 0 {
		m := min(len(out), atOnce)
		touch(lines, n, hashes[:m], &places)
		for i, h := range hashes[:m] {
			o := places[i&(atOnce-1)]
			out[i] = hasAll((*[Bytes]byte)(lines[o:o+Bytes]), h, k)
		}
		hashes, out = hashes[m:], out[m:]
	}
}

// addManyGo is AddMany in Go.
func addManyGo(lines []byte, n uint64, k uint32, hashes []uint64) {
	var places [atOnce]uint64
	for len(hashes) > 0 {
		m := min(len(hashes), atOnce)
		touch(lines, n, hashes[:m], &places)
		for i, h := range hashes[:m] {
			o := places[i&(atOnce-1)]
			add((*[Bytes]byte)(lines[o:o+Bytes]), h, k)
		}
		hashes = hashes[m:]
	}
}

// atOnce is how many lines the functions in Go load ahead: about as many as a processor
// waits for at a time.
const atOnce = 64

// touch loads a byte of the line of each hash, and notes where the lines begin. The loads do not
// depend on each other, so they overlap. The result means nothing: touch is not inlined, so that
// the compiler keeps the loads.
//
//go:noinline
func touch(lines []byte, n uint64, hashes []uint64, places *[atOnce]uint64) (all byte) {
	for i, h := range hashes {
		o := Place(h, n) * Bytes
		places[i&(atOnce-1)] = o
		all |= lines[o]
	}
	return all
}

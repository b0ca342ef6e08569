package bloom

import (
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Geometry of the blocked filter. Part of the file format, never changes.
const (
	lineBits  = form.LineBits  // of a line, into which all probes of a key fall
	lineBytes = form.LineBytes // a cache line
	firstK    = 3              // probes that are tested together, and so the fewest that a filter has
	fieldK    = 7              // probes that one multiplication yields: seven fields of nine bits
	maxK      = 2 * fieldK     // the most a filter may have: two multiplications
)

// Odd multipliers that turn a hash into probes. Part of the file format.
const (
	probeMul  = form.ProbeMul      // probes 0 to 6
	probeMul2 = 0xd6e8feb86659fd93 // probes 7 to 13
	unitMul   = 0xbf58476d1ce4e5b9 // the second unit's hash
)

// A unit is one blocked Bloom filter: a row of lines and a number of probes.
//
// The line of a hash is the high word of hash · lines. This needs no division, and the
// number of lines may exceed 32 bits. Probe i, of the first seven, is the i-th field of
// nine bits, from the top, of hash · probeMul. A field q stands for bit q&7 of byte q>>3 of
// the line. The other seven probes come from a second product.
//
//	hash · probeMul:  63     54     45     36     27     18      9      0
//	                  |probe0|probe1|probe2|probe3|probe4|probe5|probe6|-
type unit struct {
	bytes []byte // lines · 64; a reader does not change them
	lines uint64 // at least 1
	k     uint32 // firstK to maxK
}

// line returns the index of the line of h.
func (u *unit) line(h uint64) uint64 {
	hi, _ := bits.Mul64(h, u.lines)
	return hi
}

// at returns the line of h.
func (u *unit) at(h uint64) *[lineBytes]byte {
	o := u.line(h) * lineBytes
	return (*[lineBytes]byte)(u.bytes[o : o+lineBytes])
}

// hasFirst tests the first three bits with one branch. A loop that returns at the first
// missing bit returns after an unpredictable number of probes, and a mispredicted
// branch costs more than two loads: 14 ns for an absent key instead of 7. A test of all
// bits without a branch is as fast in cache. Out of cache it keeps the processor from
// running ahead to the next filter.
func hasFirst(line *[lineBytes]byte, h uint64) bool {
	p := h * probeMul
	a := line[p>>58] >> (p >> 55 & 7) & (line[p>>49&63] >> (p >> 46 & 7)) & (line[p>>40&63] >> (p >> 37 & 7))
	return a&1 != 0
}

// hasRest tests all probes from the fourth up.
func hasRest(line *[lineBytes]byte, h uint64, k uint32) bool {
	p := h * probeMul << (9 * firstK)
	for n := min(k, fieldK) - firstK; n > 0; n-- {
		if line[p>>58]>>(p>>55&7)&1 == 0 {
			return false
		}
		p <<= 9
	}
	if k <= fieldK {
		return true
	}
	p = secondProbes(h)
	for n := k - fieldK; n > 0; n-- {
		if line[p>>58]>>(p>>55&7)&1 == 0 {
			return false
		}
		p <<= 9
	}
	return true
}

// add sets the bits of all hashes. Requires: nobody else reads or changes u.bytes.
func (u *unit) add(hashes []uint64) {
	for _, h := range hashes {
		addTo(u.at(h), h, u.k)
	}
}

// addSecond is add for the second unit.
func (u *unit) addSecond(hashes []uint64) {
	for _, h := range hashes {
		h = secondHash(h)
		addTo(u.at(h), h, u.k)
	}
}

// addTo sets the bits of h in its line. It is written without a loop over the first seven
// probes. k is the same for every hash, so that its branches are predicted and cost
// nothing; a loop costs 1.5 ns a key.
func addTo(line *[lineBytes]byte, h uint64, k uint32) {
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
	if k <= fieldK {
		return
	}
	p = secondProbes(h)
	for n := k - fieldK; n > 0; n-- {
		line[p>>58] |= 1 << (p >> 55 & 7)
		p <<= 9
	}
}

// secondProbes returns the word of probes 7 to 13. The xor brings those bits of h to the
// front that the first product has at its end. Without it the two products would be alike.
func secondProbes(h uint64) uint64 { return (h ^ h>>32) * probeMul2 }

// secondHash returns the hash that the second unit uses in the place of h. Each of its
// steps can be undone, so different hashes stay different. The rotation brings the low bits
// to the top, which chooses the line. So the two units are independent.
func secondHash(h uint64) uint64 { return bits.RotateLeft64((h^h>>29)*unitMul, 32) }

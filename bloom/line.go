package bloom

import "math/bits"

// Geometry of the blocked filter. Part of the file format, never changes.
const (
	lineBits  = 512          // bits that one key's probes fall into
	lineBytes = lineBits / 8 // a cache line
	firstK    = 3            // probes that are tested together, hence the fewest a filter has
	fieldK    = 7            // probes that one multiplication yields: seven fields of nine bits
	maxK      = 2 * fieldK   // the most a filter may have: two multiplications
)

// Odd multipliers that turn a hash into probes. Part of the file format.
const (
	probeMul  = 0x9e3779b97f4a7c15 // probes 0 to 6
	probeMul2 = 0xd6e8feb86659fd93 // probes 7 to 13
	unitMul   = 0xbf58476d1ce4e5b9 // the second unit's hash
)

// A unit is one blocked Bloom filter: a row of lines and a number of probes.
//
// The line of a hash is the high word of hash · lines, which needs no division
// and no limit of 32 bits. Probe i of the first seven is the i-th field of
// nine bits, from the top, of hash · probeMul: bit q&7 of byte q>>3 of the
// line. The other seven come from a second product.
//
//	hash · probeMul:  63     54     45     36     27     18      9      0
//	                  |probe0|probe1|probe2|probe3|probe4|probe5|probe6|-
type unit struct {
	bytes []byte // lines · 64; not ours to change
	lines uint64 // at least 1
	k     uint32 // firstK to maxK
}

// line returns the index of h's line.
func (u *unit) line(h uint64) uint64 {
	hi, _ := bits.Mul64(h, u.lines)
	return hi
}

// at returns h's line.
func (u *unit) at(h uint64) *[lineBytes]byte {
	o := u.line(h) * lineBytes
	return (*[lineBytes]byte)(u.bytes[o : o+lineBytes])
}

// hasFirst tests the first three bits at once, so that there is one branch
// before the others are looked at. Leaving after each probe leaves at a random
// place, and a mispredicted branch costs more than two loads: 14 ns a miss
// instead of 7. Testing all bits without a branch is as fast in cache, but keeps
// the CPU from running ahead to the next filter out of it.
func hasFirst(line *[lineBytes]byte, h uint64) bool {
	p := h * probeMul
	a := line[p>>58] >> (p >> 55 & 7) & (line[p>>49&63] >> (p >> 46 & 7)) & (line[p>>40&63] >> (p >> 37 & 7))
	return a&1 != 0
}

// hasRest tests all probes from the fourth on.
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

// add sets the bits of all hashes. u.bytes must be ours here.
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

// addTo sets h's bits in its line. Written out, because k is the same for every
// hash: branches on it cost nothing, a loop over it 1.5 ns a key.
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

// secondProbes holds probes 7 to 13. The xor brings bits to the front that the
// first product has at its end, or the two would be alike.
func secondProbes(h uint64) uint64 { return (h ^ h>>32) * probeMul2 }

// secondHash is what the second unit uses in h's place. Each step can be
// undone, so no two hashes become one; the rotation brings low bits to the
// top, where the line is chosen, so the two units are independent.
func secondHash(h uint64) uint64 { return bits.RotateLeft64((h^h>>29)*unitMul, 32) }

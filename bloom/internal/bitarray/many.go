package bitarray

import "github.com/shaledb/shale/bloom/internal/form"

// someKeys is how many keys HasMany and AddMany work on at a time.
const someKeys = 64

// HasMany sets out[i] to the answer of Has for the hash hashes[2*i], hashes[2*i+1], for each i below
// len(out). Requires: hashes is at least twice as long as out.
//
// It is faster than Has for each of them if answers cannot be predicted, or most keys are absent: then
// Has often branches into the wrong direction, and the processor does not load the words of the next
// keys meanwhile. Where nearly all keys pass, as in the keys before, Has is predicted well, and does less.
func (a *Array) HasMany(hashes []uint64, out []bool) {
	plain := a.K < atOnce
	for len(out) > 0 {
		n := min(len(out), someKeys)
		passed := 0
		if plain {
			passed = a.hasEach(hashes[:2*n], out[:n])
		} else {
			passed = a.hasSome(hashes[:2*n], out[:n])
		}
		plain = a.K < atOnce || passed > n*7/8
		hashes, out = hashes[2*n:], out[n:]
	}
}

// hasEach is Has for each hash. It returns how many keys pass.
func (a *Array) hasEach(hashes []uint64, out []bool) (passed int) {
	for i := range out {
		if out[i] = a.Has(hashes[2*i], hashes[2*i+1]); out[i] {
			passed++
		}
	}
	return passed
}

// hasSome is HasMany for a few keys. First it tests the first probes of all, and collects the keys that
// pass. Then it tests the other probes of these. It returns how many keys pass the first test.
// Requires: there are atOnce probes or more, and out is someKeys long or shorter.
func (a *Array) hasSome(hashes []uint64, out []bool) (count int) {
	var passed [someKeys]uint8
	for i := range out {
		h1, h2 := hashes[2*i], hashes[2*i+1]
		x, y, z := h1, h2, thirdWord(h1, h2)
		all := a.bit(x)
		x, y = x+y, y+z
		all &= a.bit(x)
		x += y
		all &= a.bit(x)
		out[i] = all&1 != 0
		// Whether the key passes cannot be predicted, so that each is written, and the
		// next one overwrites it if it has not.
		passed[count&(someKeys-1)] = uint8(i)
		count += int(all & 1)
	}
	for _, i := range passed[:count] {
		h1, h2 := hashes[2*int(i)], hashes[2*int(i)+1]
		x, y, z := h1, h2, thirdWord(h1, h2)
		for range atOnce {
			x, y, z = x+y, y+z, z+form.ProbeMul
		}
		all := uint64(1)
		for range a.K - atOnce {
			all &= a.bit(x)
			if all == 0 {
				break
			}
			x, y, z = x+y, y+z, z+form.ProbeMul
		}
		out[i] = all != 0
	}
	return count
}

// AddMany adds the keys with these hashes, of two words each. A last word that has no second is left
// out. It is a plain loop: additions have no branches, so they overlap as they are.
func (a *Array) AddMany(hashes []uint64) {
	for ; len(hashes) >= 2; hashes = hashes[2:] {
		a.Add(hashes[0], hashes[1])
	}
}

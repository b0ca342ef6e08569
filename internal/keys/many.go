package keys

import (
	"bytes"
	"math"
	"math/bits"
)

// Heads has a head for each of up to 256 keys, which are chosen by indexes of one byte, so that
// neither the caller nor HeadsOf and FindMany check an index.
type Heads [256]uint64

// HeadsOf sets the heads of some keys to what FindMany needs: the head behind Prefix. A key that does
// not begin with Prefix gets the least head or the greatest one, as it lies before all bounds or behind
// them. Ranges with equal prefixes need equal heads.
func (r *Ranges) HeadsOf(keys [][]byte, some []uint8, heads *Heads) {
	p := len(r.Prefix)
	for _, i := range some {
		key := keys[i]
		switch {
		case p == 0:
			heads[i] = Head(key)
		case len(key) >= p && string(key[:p]) == string(r.Prefix):
			heads[i] = Head(key[p:])
		case bytes.Compare(key, r.Prefix) < 0:
			heads[i] = 0
		default:
			heads[i] = math.MaxUint64
		}
	}
}

// FindMany sets found[j] to Find(keys[some[j]], whole). heads are those of HeadsOf. Among 64 ranges both
// together take a third of the time of Find: no branch of the search depends on a key, so the processor
// need not guess, and goes on with the next keys. Requires: there is a range.
func (r *Ranges) FindMany(keys [][]byte, some []uint8, heads *Heads, whole Bounded, found []int32) {
	largest, smallest := r.Largest, r.Smallest[:len(r.Largest)]
	for j, i := range some {
		head, at := heads[i], 0
		for n := len(largest); n > 1; {
			half := n >> 1
			_, below := bits.Sub64(largest[at+half-1], head, 0)
			at += half & -int(below)
			n -= half
		}
		// Range at is the first that does not end before the head, or the last.
		switch low, high := smallest[at], largest[at]; {
		case low == head || high == head:
			at = r.Find(keys[i], whole) // only the whole key decides
		case head < low || high < head:
			at = -1
		}
		found[j] = int32(at)
	}
}

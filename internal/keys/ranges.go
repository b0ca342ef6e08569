package keys

import (
	"bytes"
	"sort"
)

// Ranges finds the range that covers a key, among ranges of keys that are sorted
// and do not overlap: the tables of a run. The bounds are integers in flat arrays,
// so that a search touches few cache lines and compares whole keys only where
// eight bytes do not decide. A search of whole keys takes as long among one range
// or two, and twice as long (130 ns, not 60) among 64 and more.
type Ranges struct {
	Prefix []byte // what all bounds begin with
	// Largest[i] and Smallest[i] are the Heads of what follows Prefix in the
	// bounds of range i.
	Largest, Smallest []uint64
}

// A Bounded knows the whole bounds of each range.
type Bounded interface {
	Bounds(i int) (smallest, largest []byte)
}

// NewRanges makes room for n ranges between the keys first and last, which Set
// fills. It keeps a part of first.
func NewRanges(n int, first, last []byte) Ranges {
	heads := make([]uint64, 2*n)
	return Ranges{Prefix: first[:CommonPrefix(first, last)], Largest: heads[:n:n], Smallest: heads[n:]}
}

// Set gives range i its bounds.
func (r *Ranges) Set(i int, smallest, largest []byte) {
	r.Largest[i] = Head(largest[len(r.Prefix):])
	r.Smallest[i] = Head(smallest[len(r.Prefix):])
}

// Find returns the index of the range that covers key, or -1. It asks whole for
// bounds that begin like key.
func (r *Ranges) Find(key []byte, whole Bounded) int {
	p := len(r.Prefix)
	if len(key) < p || (p > 0 && !bytes.Equal(key[:p], r.Prefix)) {
		return -1 // all bounds begin with Prefix, so key lies outside them
	}
	head := Head(key[p:])
	lo, hi := 0, len(r.Largest)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if r.Largest[mid] < head {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	// Ranges before lo end before key. Where heads are equal, keys decide.
	if lo < len(r.Largest) && r.Largest[lo] == head {
		lo = r.findEqual(lo, head, key, whole)
	}
	if lo == len(r.Largest) || r.Smallest[lo] > head {
		return -1
	}
	if r.Smallest[lo] == head {
		if smallest, _ := whole.Bounds(lo); bytes.Compare(smallest, key) > 0 {
			return -1
		}
	}
	return lo
}

// findEqual goes on from range lo, the first with this head, to the first that
// does not end before key. It halves too: with a long common beginning that not
// all keys share, all ranges may have one head.
func (r *Ranges) findEqual(lo int, head uint64, key []byte, whole Bounded) int {
	return lo + sort.Search(len(r.Largest)-lo, func(i int) bool {
		if r.Largest[lo+i] != head {
			return true
		}
		_, largest := whole.Bounds(lo + i)
		return bytes.Compare(largest, key) >= 0
	})
}

// Package histogram counts durations in buckets 3 % wide.
package histogram

import (
	"math/bits"
	"time"
)

// Buckets: durations below 32 ns have one each, further ones 32 for each power
// of two.
const (
	subBits = 5
	sub     = 1 << subBits
	size    = (64 - subBits) * sub
)

// A Histogram is for one goroutine; Merge joins them.
type Histogram struct {
	counts [size]uint32
	n      uint64
	max    time.Duration
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
	h.max = max(h.max, d)
}

func bucket(d time.Duration) int {
	x := uint64(max(d, 0))
	if x < sub {
		return int(x)
	}
	shift := bits.Len64(x) - subBits - 1
	return (shift+1)*sub + int(x>>shift) - sub
}

// middle is the duration in the middle of a bucket.
func middle(b int) time.Duration {
	if b < sub {
		return time.Duration(b)
	}
	shift := b/sub - 1
	return time.Duration(uint64(b%sub+sub)<<shift + 1<<shift/2)
}

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Count is how many durations were added.
func (h *Histogram) Count() uint64 { return h.n }

// Max is the longest, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile is the duration that a part q of all do not exceed, 0 of none.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := uint64(q * float64(h.n))
	var seen uint64
	for i, c := range h.counts {
		if seen += uint64(c); c > 0 && seen > want {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

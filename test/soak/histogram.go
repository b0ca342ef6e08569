package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations in buckets that are an eighth wide at most.
type histogram [40 * 8]atomic.Uint64

// bucketOf returns the bucket of a duration in nanoseconds.
func bucketOf(ns uint64) int {
	if ns < 8 {
		return int(ns)
	}
	n := bits.Len64(ns)
	return min((n-3)*8+int(ns>>(n-4)&7), len(histogram{})-1)
}

// bucketStart is the shortest duration in a bucket.
func bucketStart(bucket int) time.Duration {
	if bucket < 8 {
		return time.Duration(bucket)
	}
	return time.Duration(8+bucket%8) << (bucket/8 - 1)
}

func (h *histogram) add(d time.Duration) { h[bucketOf(uint64(d))].Add(1) }

// take empties the histogram and returns what was in it.
func (h *histogram) take() []uint64 {
	counts := make([]uint64, len(h))
	n := 0
	for i := range h {
		if counts[i] = h[i].Swap(0); counts[i] > 0 {
			n = i + 1
		}
	}
	return counts[:n]
}

// quantile returns the duration that a share of those counted does not reach.
func quantile(counts []uint64, q float64) time.Duration {
	var sum uint64
	for _, n := range counts {
		sum += n
	}
	left := float64(sum) * q
	for i, n := range counts {
		if left -= float64(n); left < 0 {
			return bucketStart(i + 1)
		}
	}
	return 0
}

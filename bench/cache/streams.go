package main

import (
	"math"
	"math/rand/v2"
	"sort"
	"sync"
)

// hitRatioRow measures the share of a stream's lookups that find their block.
func hitRatioRow(name string, stream func() []uint32) row {
	stream = sync.OnceValue(stream) // the same for both caches
	return row{"hit ratio, " + name, "%.1f %%", func(c contestant) float64 {
		return 100 * hitRatio(c, stream())
	}}
}

func hitRatio(c contestant, stream []uint32) float64 {
	found, asked := 0, 0
	for n, i := range stream {
		ok := c.hit(uint64(i))
		if !ok {
			c.insert(uint64(i))
		}
		if n >= len(stream)/2 { // the first half warms up
			asked++
			if ok {
				found++
			}
		}
	}
	return float64(found) / float64(asked)
}

// zipf asks for the block of rank k, from 1, in proportion to k^-s. (The
// standard library's generator needs s > 1.) Ranks are spread over all files.
func zipf(s float64, n int) []uint32 {
	sums := make([]float64, universe) // up to each rank
	sum := 0.0
	for k := range sums {
		sum += math.Pow(float64(k+1), -s)
		sums[k] = sum
	}
	rng := rand.New(rand.NewPCG(1, 2))
	stream := make([]uint32, n)
	for i := range stream {
		rank := min(sort.SearchFloat64s(sums, rng.Float64()*sum), universe-1)
		stream[i] = uint32(uint64(rank) * 2654435761 % universe) // odd, so one to one
	}
	return stream
}

func uniform(n int) []uint32 {
	rng := rand.New(rand.NewPCG(3, 4))
	stream := make([]uint32, n)
	for i := range stream {
		stream[i] = uint32(rng.Uint64N(universe))
	}
	return stream
}

// withScans puts passes over blocks that nobody asks for again between the
// lookups: each is eight times what fits, and they are a third of the stream.
func withScans(stream []uint32) []uint32 {
	var mixed []uint32
	next := uint32(universe)
	for len(stream) > 0 {
		n := min(len(stream), universe)
		mixed = append(mixed, stream[:n]...)
		stream = stream[n:]
		for range universe / 2 {
			mixed = append(mixed, next)
			next++
		}
	}
	return mixed
}

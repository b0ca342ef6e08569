// Command cache compares shale's block cache with a general one, Otter, on
// what a store asks of a block cache.
//
//	cd bench/cache && go run .
//
// It is a module of its own, so that shale does not depend on Otter.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	blockSize = 4096
	capacity  = 64 << 20                  // bytes
	universe  = 16 * capacity / blockSize // distinct blocks: 16 times what fits
)

// A contestant is a cache of blocks as a store uses it.
type contestant interface {
	name() string
	// hit looks block i up, reads a byte of it and lets go of it.
	hit(i uint64) bool
	// insert reads block i from "disk" into the cache.
	insert(i uint64)
}

func main() {
	rounds := flag.Int("rounds", 5, "`rounds`; medians are printed")
	steps := flag.Int("steps", 2_000_000, "lookups a `round` and stream")
	flag.Parse()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d MiB of %d B blocks\t", capacity>>20, blockSize)
	makers := []func() contestant{newOurs, newOtter}
	for _, m := range makers {
		fmt.Fprintf(w, "%s\t", m().name())
	}
	fmt.Fprintln(w)
	for _, row := range rows(*steps) {
		fmt.Fprintf(w, "%s\t", row.name)
		results := make([][]float64, len(makers))
		for range *rounds {
			for i, m := range makers { // in turns, so that noise meets both
				results[i] = append(results[i], row.run(m()))
			}
		}
		for _, r := range results {
			slices.Sort(r)
			fmt.Fprintf(w, row.format+"\t", r[len(r)/2])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// A row of the table is one measurement.
type row struct {
	name, format string
	run          func(c contestant) float64
}

func rows(steps int) []row {
	return []row{
		{"hit ratio, Zipf 1.01", "%.1f %%", func(c contestant) float64 { return 100 * hitRatio(c, zipf(1.01, steps)) }},
		{"hit ratio, Zipf 1.2", "%.1f %%", func(c contestant) float64 { return 100 * hitRatio(c, zipf(1.2, steps)) }},
		{"hit ratio, Zipf 1.01 and scans", "%.1f %%", func(c contestant) float64 { return 100 * hitRatio(c, withScans(zipf(1.01, steps))) }},
		{"hit ratio, uniform", "%.1f %%", func(c contestant) float64 { return 100 * hitRatio(c, uniform(steps)) }},
		{"hit, 1 goroutine", "%.0f ns", func(c contestant) float64 { return hits(c, 1, steps) }},
		{"hit, 2 goroutines", "%.0f ns", func(c contestant) float64 { return hits(c, 2, steps) }},
		{"hit of one block, 2 goroutines", "%.0f ns", func(c contestant) float64 { return oneBlock(c, steps) }},
		{"miss and insert", "%.0f ns", func(c contestant) float64 { ns, _ := misses(c, steps/4); return ns }},
		{"bytes allocated a miss", "%.0f", func(c contestant) float64 { _, b := misses(c, steps/4); return b }},
		{"heap when full, of capacity", "%.2f", heapWhenFull},
	}
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

func zipf(s float64, n int) []uint32 {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), s, 1, universe-1)
	stream := make([]uint32, n)
	for i := range stream {
		stream[i] = uint32(z.Uint64() * 2654435761 % universe)
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

// withScans puts passes over half of all blocks between the lookups, a third
// of the stream in all.
func withScans(stream []uint32) []uint32 {
	var mixed []uint32
	next := uint32(0)
	for len(stream) > 0 {
		n := min(len(stream), universe)
		mixed = append(mixed, stream[:n]...)
		stream = stream[n:]
		for range universe / 2 {
			mixed = append(mixed, universe+next) // blocks that nobody asks for again
			next++
		}
	}
	return mixed
}

// resident fills c to half and returns how many blocks that is.
func resident(c contestant) uint64 {
	n := uint64(capacity / blockSize / 2)
	for i := range n {
		if !c.hit(i) {
			c.insert(i)
		}
	}
	time.Sleep(50 * time.Millisecond) // Otter works in the background
	return n
}

func hits(c contestant, goroutines, steps int) float64 {
	n := resident(c)
	var wg sync.WaitGroup
	begin := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			x := uint64(g)*7919 + 1
			for range steps {
				x = x*6364136223846793005 + 1442695040888963407
				c.hit((x >> 33) % n)
			}
		})
	}
	wg.Wait()
	return float64(time.Since(begin)) / float64(steps)
}

func oneBlock(c contestant, steps int) float64 {
	resident(c)
	var wg sync.WaitGroup
	begin := time.Now()
	for range 2 {
		wg.Go(func() {
			for range steps {
				c.hit(7)
			}
		})
	}
	wg.Wait()
	return float64(time.Since(begin)) / float64(steps)
}

func misses(c contestant, steps int) (ns, bytes float64) {
	for i := range uint64(2 * capacity / blockSize) {
		c.insert(1<<40 + i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	for i := range uint64(steps) {
		if !c.hit(i) {
			c.insert(i)
		}
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	return float64(took) / float64(steps), float64(after.TotalAlloc-before.TotalAlloc) / float64(steps)
}

func heapWhenFull(c contestant) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range uint64(4 * capacity / blockSize) {
		c.insert(1<<41 + i)
	}
	time.Sleep(200 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(c)
	return float64(after.HeapAlloc-before.HeapAlloc) / capacity
}

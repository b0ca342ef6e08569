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
	"runtime"
	"slices"
	"sync"
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
	steps := flag.Int("steps", 1_000_000, "lookups a `round` and stream")
	flag.Parse()
	makers := []func() contestant{newOurs, newOtter}
	fmt.Printf("%-42s", fmt.Sprintf("%d MiB of %d B blocks", capacity>>20, blockSize))
	for _, m := range makers {
		fmt.Printf("%15s", m().name())
	}
	fmt.Println()
	for _, row := range rows(*steps) {
		results := make([][]float64, len(makers))
		for range *rounds {
			for i, m := range makers { // in turns, so that noise meets both
				results[i] = append(results[i], row.run(m()))
			}
		}
		fmt.Printf("%-42s", row.name)
		for _, r := range results {
			slices.Sort(r)
			fmt.Printf("%15s", fmt.Sprintf(row.format, r[len(r)/2]))
		}
		fmt.Println()
	}
}

// A row of the table is one measurement.
type row struct {
	name, format string
	run          func(c contestant) float64
}

func rows(steps int) []row {
	return []row{
		hitRatioRow("Zipf 0.99", func() []uint32 { return zipf(0.99, steps) }),
		hitRatioRow("Zipf 0.8", func() []uint32 { return zipf(0.8, steps) }),
		hitRatioRow("Zipf 0.99 and scans", func() []uint32 { return withScans(zipf(0.99, steps)) }),
		hitRatioRow("Zipf 0.8 and scans", func() []uint32 { return withScans(zipf(0.8, steps)) }),
		hitRatioRow("uniform", func() []uint32 { return uniform(steps) }),
		{"CPU time of a hit, 1 goroutine", "%.0f ns", func(c contestant) float64 { return hits(c, 1, steps) }},
		{"CPU time of a hit, 2 goroutines", "%.0f ns", func(c contestant) float64 { return hits(c, 2, steps) }},
		{"CPU time of a hit of one block, 2", "%.0f ns", func(c contestant) float64 { return oneBlock(c, steps) }},
		{"CPU time of a miss and insert", "%.0f ns", func(c contestant) float64 { return misses(c, steps/4).ns }},
		{"allocations a miss", "%.2f", func(c contestant) float64 { return misses(c, steps/4).allocs }},
		{"bytes allocated a miss", "%.0f", func(c contestant) float64 { return misses(c, steps/4).bytes }},
		{"live heap when full, of the capacity", "%.2f", heapWhenFull},
		{"highest heap amid misses, of the capacity", "%.2f", highestHeap},
	}
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

// hits returns the CPU time of a hit. Goroutines that stood in each other's way
// would show in it: as waiting for a cache line, or as spinning for a lock.
func hits(c contestant, goroutines, steps int) float64 {
	n := resident(c)
	var wg sync.WaitGroup
	begin := cpuTime()
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
	return float64(cpuTime()-begin) / float64(goroutines*steps)
}

func oneBlock(c contestant, steps int) float64 {
	const goroutines = 2
	resident(c)
	var wg sync.WaitGroup
	begin := cpuTime()
	for range goroutines {
		wg.Go(func() {
			for range steps {
				c.hit(7)
			}
		})
	}
	wg.Wait()
	return float64(cpuTime()-begin) / float64(goroutines*steps)
}

// A missCost is what a lookup that finds nothing costs, with the insert after it.
type missCost struct{ ns, allocs, bytes float64 }

func misses(c contestant, steps int) missCost {
	for i := range uint64(2 * capacity / blockSize) { // full, so that each insert evicts
		c.insert(1<<40 + i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := cpuTime()
	for i := range uint64(steps) {
		if !c.hit(i) {
			c.insert(i)
		}
	}
	took := cpuTime() - begin
	runtime.ReadMemStats(&after)
	n := float64(steps)
	return missCost{
		ns:     float64(took) / n,
		allocs: float64(after.Mallocs-before.Mallocs) / n,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / n,
	}
}

package base

import (
	"sync/atomic"
	"unsafe"
)

// Shards is the number of parts of a Counter. It is a power of two.
const Shards = 8

// Shard returns a number in [0, Shards). It differs between goroutines
// and mostly stays the same for one goroutine, so goroutines on
// different cores add to different cache lines. Any value is correct.
//
// It derives the number from the address of a local variable, which takes only
// a few shifts: each goroutine has a stack of its own, of at least 2 KiB.
func Shard() uint {
	var local byte
	p := uintptr(unsafe.Pointer(&local))
	return uint(p>>11^p>>15) & (Shards - 1)
}

// A Counter is a sum that many goroutines may add to without
// sharing a cache line. The zero value is ready for use.
type Counter struct {
	parts [Shards]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

// Add adds n.
func (c *Counter) Add(n uint64) { c.parts[Shard()].n.Add(n) }

// Load returns the sum. It may include additions in progress or not.
func (c *Counter) Load() uint64 {
	var sum uint64
	for i := range c.parts {
		sum += c.parts[i].n.Load()
	}
	return sum
}

package base

import (
	"sync/atomic"
	"unsafe"
)

// Shards is the number of parts of a striped counter. A power of two.
const Shards = 8

// Shard returns a number in [0, Shards) that differs between goroutines and
// mostly stays the same for one of them, so that goroutines on different cores
// add to different cache lines. It is a hint: any value is correct.
//
// Goroutines have stacks of their own, 2 KiB at least, so the address of a
// local variable tells them apart for the price of a shift.
func Shard() uint {
	var local byte
	p := uintptr(unsafe.Pointer(&local))
	return uint(p>>11^p>>15) & (Shards - 1)
}

// A Counter is a sum that many goroutines may add to without sharing a cache
// line. The zero value is ready.
type Counter struct {
	parts [Shards]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

// Add adds n.
func (c *Counter) Add(n uint64) { c.parts[Shard()].n.Add(n) }

// Load returns the sum. Additions under way may be in it or not.
func (c *Counter) Load() uint64 {
	var sum uint64
	for i := range c.parts {
		sum += c.parts[i].n.Load()
	}
	return sum
}

package base

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// A stripe is a part of something that goroutines write at the same time, such as a sum. Each
// goroutine writes to the stripe that StripeOf gives it, and a reader reads all of them. Two
// processors that write to one cache line wait for each other at each write. With a stripe each,
// they do not.

const (
	// stripesPerProcessor is above 1, because StripeOf chooses like chance: with as many stripes
	// as processors, two of three goroutines would share a stripe with another. With four times
	// as many, one in five does.
	stripesPerProcessor = 4
	maxStripes          = 1024
)

// Stripes returns how many stripes suit the processors that the program may use now, by
// GOMAXPROCS. It is a power of two, from 4 to 1,024.
func Stripes() int { return stripesFor(runtime.GOMAXPROCS(0)) }

func stripesFor(processors int) int {
	return min(stripesPerProcessor<<bits.Len(uint(processors-1)), maxStripes)
}

// StripeOf returns the stripe of the calling goroutine, in [0, n). It differs between goroutines
// and mostly stays the same for one goroutine. Any value is correct. Requires: n is a power of
// two.
//
// It derives the number from the address of a local variable, which takes about a nanosecond:
// each goroutine has a stack of its own, of at least 2 KiB. The multiplication by the golden
// ratio spreads neighbouring stacks (Knuth, The Art of Computer Programming, volume 3, 6.4).
func StripeOf(n int) int {
	var local byte
	stack := uint64(uintptr(unsafe.Pointer(&local)) >> 11)
	return int(stack*0x9e3779b97f4a7c15>>40) & (n - 1)
}

// A Counter is a sum that many goroutines may add to without sharing a cache line. The zero
// value is ready for use, and takes no memory for stripes before the first Add. A Counter must
// not be copied after that.
type Counter struct {
	stripes atomic.Pointer[[]counterStripe]
}

// A counterStripe fills a cache line.
type counterStripe struct {
	n atomic.Uint64
	_ [56]byte
}

// Add adds n. To subtract m, add ^(m - 1).
func (c *Counter) Add(n uint64) {
	s := c.stripes.Load()
	if s == nil {
		s = c.begin()
	}
	(*s)[StripeOf(len(*s))].n.Add(n)
}

// begin returns the stripes. It makes them, unless another goroutine was faster.
func (c *Counter) begin() *[]counterStripe {
	s := make([]counterStripe, Stripes())
	c.stripes.CompareAndSwap(nil, &s)
	return c.stripes.Load()
}

// Load returns the sum. It may include additions in progress or not.
func (c *Counter) Load() uint64 {
	s := c.stripes.Load()
	if s == nil {
		return 0
	}
	var sum uint64
	for i := range *s {
		sum += (*s)[i].n.Load()
	}
	return sum
}

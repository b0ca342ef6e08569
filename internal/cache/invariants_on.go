//go:build invariants

package cache

import "fmt"

// poisonByte fills free buffers. A reader that uses one without
// a pin then sees wrong bytes, and Alloc detects a write to one.
const poisonByte = 0xdb

// poison fills a free buffer.
func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = poisonByte
	}
}

// checkPoison panics if a free buffer was written to.
func checkPoison(b []byte) {
	for i, x := range b[:cap(b)] {
		if x != poisonByte {
			panic(fmt.Sprintf("cache: byte %d of a free buffer was set to %#x", i, x))
		}
	}
}

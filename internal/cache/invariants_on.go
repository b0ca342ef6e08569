//go:build invariants

package cache

import "fmt"

// poisonByte fills free buffers, so that a reader that held on to one without
// a pin sees nonsense, and Alloc sees that someone wrote to one.
const poisonByte = 0xdb

func poison(b []byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = poisonByte
	}
}

func checkPoison(b []byte) {
	for i, x := range b[:cap(b)] {
		if x != poisonByte {
			panic(fmt.Sprintf("cache: byte %d of a free buffer was set to %#x", i, x))
		}
	}
}

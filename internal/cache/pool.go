package cache

import (
	"math/bits"
	"slices"
	"sync"
)

// Buffers come in classes of sizes, with sixteen steps for each doubling: 256,
// 272, 288, ... 4096, 4352, ... 8 MiB. So at most a sixteenth of a buffer is
// unused, except in the first class. Larger buffers are rare and have no class.
const (
	minClassBits = 8
	maxClassBits = 23
	stepBits     = 4
	numClasses   = (maxClassBits-minClassBits)<<stepBits + 1
	noClass      = -1
	mappedClass  = -2 // memory mapped for one block
)

// pools hold free loose blocks of each class, for all caches of the
// process. The garbage collector empties them, so they need no limit.
var pools [numClasses]sync.Pool

// classOf returns the smallest class with room for n bytes, or noClass.
func classOf(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	if n > 1<<maxClassBits {
		return noClass
	}
	m := uint(n - 1)
	octave := bits.Len(m) - 1 // 1<<octave <= m < 2<<octave
	step := m>>(octave-stepBits) - 1<<stepBits
	return (octave-minClassBits)<<stepBits + int(step) + 1
}

// classBytes returns the length in bytes of a class's buffers.
func classBytes(class int) int {
	step := class & (1<<stepBits - 1)
	return (1<<stepBits + step) << (class>>stepBits + minClassBits - stepBits)
}

// Alloc returns a block of n bytes, pinned once, which need
// not be inserted anywhere. Its contents are undefined.
func (c *Cache) Alloc(n int) *Block { return allocLoose(n) }

// allocLoose returns a loose block of n bytes from the Go heap, pinned once.
func allocLoose(n int) *Block {
	class := classOf(n)
	if class == noClass {
		return newBlock(class, n)
	}
	b, _ := pools[class].Get().(*Block)
	if b == nil {
		b = newBlock(class, classBytes(class))
	} else {
		checkPoison(b.buf)
		b.refs.Add(1 - freed)
	}
	b.buf = b.buf[:n]
	return b
}

// newBlock allocates a block with a buffer of n bytes. The capacity of the buffer is what
// the allocator uses for n bytes anyway, so the charge is what the buffer really takes.
func newBlock(class, n int) *Block {
	b := &Block{class: int16(class), buf: slices.Grow([]byte(nil), n)[:n]}
	b.refs.Store(1)
	return b
}

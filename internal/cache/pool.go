package cache

import (
	"math/bits"
	"slices"
	"sync"
)

// Buffers come in classes of sixteen steps a doubling, so that at most a
// sixteenth is wasted: 256, 272, 288, ... 4096, 4352, ... 1 MiB. What is larger
// is rare and has no class.
const (
	minClassBits = 8
	maxClassBits = 20
	stepBits     = 4
	numClasses   = (maxClassBits-minClassBits)<<stepBits + 1
	noClass      = -1
	mappedClass  = -2 // a mapping of its own
)

// pools hold free loose blocks of each class, for all caches of the process. They are
// emptied by the garbage collector, so what they hold needs no bound.
var pools [numClasses]sync.Pool

// classOf returns the smallest class of at least n bytes, or noClass.
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

// classBytes returns the least length of a class's buffers.
func classBytes(class int) int {
	step := class & (1<<stepBits - 1)
	return (1<<stepBits + step) << (class>>stepBits + minClassBits - stepBits)
}

// Alloc returns a block of n bytes, pinned once, that need not be inserted
// anywhere. What its bytes are is not defined.
func (c *Cache) Alloc(n int) *Block { return allocLoose(n) }

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

// newBlock allocates. Its buffer is as long as the allocator makes it anyway,
// so that the charge is what it really takes.
func newBlock(class, n int) *Block {
	b := &Block{class: int16(class), buf: slices.Grow([]byte(nil), n)[:n]}
	b.refs.Store(1)
	return b
}

package cache

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

func TestPool_Classes(t *testing.T) {
	last := -1
	for n := 0; n <= 1<<maxClassBits; n++ {
		class := classOf(n)
		if class < last || class > last+1 || class >= numClasses {
			t.Fatalf("class of %d bytes is %d, after %d", n, class, last)
		}
		last = class
		if size := classBytes(class); size < n || size > max(n+n/8+1, 1<<minClassBits) {
			t.Fatalf("%d bytes get a buffer of %d", n, size)
		}
	}
	if classOf(1<<maxClassBits+1) != noClass {
		t.Error("a huge buffer has a class")
	}
	c := New(0)
	for _, n := range []int{0, 1, 255, 4096, 1 << 20, 1<<20 + 1} {
		b := c.Alloc(n)
		if len(b.Bytes()) != n {
			t.Errorf("Alloc(%d) has %d bytes", n, len(b.Bytes()))
		}
		b.Release()
	}
}

// The next block uses the buffer of a free one. So a full
// cache allocates nothing, however many blocks are inserted.
func TestPool_MissDoesNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector has pools forget at random")
	}
	c := New(1 << 20)
	n := uint64(0)
	miss := func() {
		n++
		b := c.Alloc(4096)
		c.Insert(Key{1, n}, b).Release()
	}
	for range 1000 {
		miss()
	}
	if got := testing.AllocsPerRun(1000, miss); got != 0 {
		t.Errorf("a miss allocates %v times", got)
	}
}

// A late reader's pin on a free block still counts when the
// block is used again, because the reader will remove it.
func TestPool_AllocKeepsLatePins(t *testing.T) {
	c := New(0)
	for range 100 { // the pool may give another, or forget
		b := c.Alloc(5000)
		b.Release()
		b.refs.Add(1) // the late reader
		again := c.Alloc(5000)
		if again != b {
			b.Release()
			again.Release()
			continue
		}
		if n := again.refs.Load(); n != 2 {
			t.Errorf("%d pins, want 2: the owner's and the late reader's", n)
		}
		again.Release()
		again.Release()
		return
	}
	t.Skip("the pool never gave the block again")
}

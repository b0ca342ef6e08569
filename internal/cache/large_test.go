package cache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

const largeBlock = 100 << 10 // too large for a piece of a cache of 4 MiB

// fullOfLarge returns a cache that is full of large blocks.
func fullOfLarge() *Cache {
	c := New(4 << 20)
	for i := range uint64(100) {
		add(c, Key{1, i}, largeBlock)
		add(c, Key{1, i}, largeBlock)
	}
	return c
}

// admitted returns a block of n bytes that gets into a full cache, because it is missed a second time.
func admitted(c *Cache, k Key, n int) *Block {
	c.Insert(k, c.AllocAt(k, n)).Release()
	return c.AllocAt(k, n)
}

// A large block that gets into a full cache takes the memory of one that leaves, which the system need not give out and
// clear. So it has the bytes of that one.
func TestMapped_UsedAgain(t *testing.T) {
	if testenv.Race {
		t.Skip("with the race detector it lies in the heap")
	}
	c := fullOfLarge()
	for i := range uint64(50) {
		k := Key{2, i}
		b := admitted(c, k, largeBlock-int(i)*100)
		if b.passing || b.class != mappedClass {
			t.Fatalf("block %d: passing %v, class %d", i, b.passing, b.class)
		}
		if !slices.ContainsFunc(b.Bytes(), func(x byte) bool { return x != 0 }) {
			t.Errorf("block %d has new memory", i)
		}
		fillFor(b, k)
		c.Insert(k, b).Release()
		if !holds(c, k) {
			t.Errorf("block %d is not kept", i)
		}
	}
}

// A large block that is read once takes the place of none, as for blocks of the usual size.
func TestMapped_ScanEvictsNothing(t *testing.T) {
	c := fullOfLarge()
	var kept []Key
	for i := range uint64(100) {
		if k := (Key{1, i}); c.Holds(k) {
			kept = append(kept, k)
		}
	}
	if len(kept) < 20 {
		t.Fatalf("the cache has %d blocks", len(kept))
	}
	for i := range uint64(4 * len(kept)) {
		add(c, Key{2, i}, largeBlock)
	}
	for _, k := range kept {
		if !holds(c, k) {
			t.Fatalf("block %v is evicted by a scan", k)
		}
	}
}

// Large blocks of any sizes, some of them pinned while they are evicted, keep their bytes, and the cache keeps within its
// capacity.
func TestMapped_SizesShift(t *testing.T) {
	c := New(4 << 20)
	r := rand.New(rand.NewPCG(1, 2))
	pinned := make(map[Key]*Block)
	for i := range 3000 {
		k := Key{1, r.Uint64N(200)}
		b := c.Get(k)
		if b == nil {
			b = c.AllocAt(k, 20<<10+r.IntN(200<<10))
			fillFor(b, k)
			b = c.Insert(k, b)
		}
		if !checkFor(t, b, k) {
			return
		}
		if old := pinned[k]; old != nil {
			old.Release()
		}
		if pinned[k] = b; len(pinned) > 5 {
			for k, b := range pinned {
				checkFor(t, b, k)
				b.Release()
				delete(pinned, k)
				break
			}
		}
		for s := range c.shards {
			if taken := c.shards[s].taken(); taken > c.shards[s].capacity || c.shards[s].caught != nil || c.shards[s].wanted != 0 {
				t.Fatalf("step %d: %d bytes are taken of %d", i, taken, c.shards[s].capacity)
			}
		}
	}
	for _, b := range pinned {
		b.Release()
	}
	c.Close()
	if n := len(c.shards[0].mapped.set); n != 0 && !testenv.Race {
		t.Errorf("%d mappings are left", n)
	}
}

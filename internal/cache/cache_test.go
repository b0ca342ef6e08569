package cache

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// fillFor fills a block with bytes that belong to k,
// so that checkFor notices the bytes of another block.
func fillFor(b *Block, k Key) {
	p := b.Bytes()
	for i := 0; i+16 <= len(p); i += 16 {
		binary.LittleEndian.PutUint64(p[i:], k.File)
		binary.LittleEndian.PutUint64(p[i+8:], k.Offset)
	}
}

// checkFor reports whether b holds the bytes that belong to
// k. It does not end the test, because goroutines call it.
func checkFor(t *testing.T, b *Block, k Key) bool {
	t.Helper()
	p := b.Bytes()
	for i := 0; i+16 <= len(p); i += 16 {
		if f, o := binary.LittleEndian.Uint64(p[i:]), binary.LittleEndian.Uint64(p[i+8:]); f != k.File || o != k.Offset {
			t.Errorf("block of %v holds the bytes of %v at %d", k, Key{f, o}, i)
			return false
		}
	}
	return true
}

// add inserts a block of n bytes at k and releases it.
func add(c *Cache, k Key, n int) {
	b := c.AllocAt(k, n)
	fillFor(b, k)
	c.Insert(k, b).Release()
}

func holds(c *Cache, k Key) bool {
	b := c.Get(k)
	if b == nil {
		return false
	}
	b.Release()
	return true
}

func TestCache_GetInsert(t *testing.T) {
	c := New(1 << 20)
	k := Key{File: 3, Offset: 4096}
	if c.Get(k) != nil {
		t.Fatal("an empty cache has a block")
	}
	b := c.Alloc(1000)
	fillFor(b, k)
	if got := c.Insert(k, b); got != b {
		t.Fatal("Insert returned another block")
	}
	again := c.Alloc(1000)
	fillFor(again, k)
	if got := c.Insert(k, again); got != b {
		t.Error("the second Insert at a key did not return the first block")
	}
	got := c.Get(k)
	if got != b || len(got.Bytes()) != 1000 {
		t.Fatalf("Get = %v", got)
	}
	checkFor(t, got, k)
	for range 3 {
		b.Release()
	}
	for _, other := range []Key{{3, 0}, {4, 4096}, {0, 0}} {
		if holds(c, other) {
			t.Errorf("there is a block at %v", other)
		}
	}
	if s := c.Stats(); s.Blocks != 1 || s.Bytes < 1000 || s.Bytes > 1400 {
		t.Errorf("Stats = %+v", s)
	}
}

func TestCache_Capacity(t *testing.T) {
	const capacity = 4 << 20
	c := New(capacity)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		add(c, Key{uint64(i % 10), uint64(i)}, 1+rng.IntN(20000))
		if s := c.Stats(); s.Bytes > capacity {
			t.Fatalf("%d bytes after %d inserts; the capacity is %d", s.Bytes, i+1, capacity)
		}
	}
	if s := c.Stats(); s.Bytes < capacity*9/10 {
		t.Errorf("a full cache holds %d of %d bytes", s.Bytes, capacity)
	}
	for file := range uint64(10) {
		c.EvictFile(file)
	}
	if s := c.Stats(); s != (Stats{}) {
		t.Errorf("Stats after all files were evicted: %+v", s)
	}
	for i := range c.shards {
		if tab := c.shards[i].table.Load(); tab.used != 0 || len(c.shards[i].files) != 0 || c.shards[i].order.newest != nil {
			t.Errorf("shard %d is not empty", i)
		}
	}
}

func TestCache_EvictFile(t *testing.T) {
	c := New(8 << 20)
	for i := range uint64(300) {
		add(c, Key{i % 3, i}, 4000)
	}
	pinned := c.Get(Key{1, 1})
	c.EvictFile(1)
	for i := range uint64(300) {
		if got, want := holds(c, Key{i % 3, i}), i%3 != 1; got != want {
			t.Fatalf("block %d of file %d: held %v, want %v", i, i%3, got, want)
		}
	}
	checkFor(t, pinned, Key{1, 1}) // a pin outlives the eviction
	before := c.Stats().Blocks
	pinned.Release()
	if after := c.Stats().Blocks; after != before-1 {
		t.Errorf("%d blocks before the last Release, %d after", before, after)
	}
}

// Reads, inserts and evictions happen at the same time, in two
// caches that share the pools and the keys, but not the bytes.
func TestCache_Concurrent(t *testing.T) {
	const capacity = 2 << 20 // a fifth of the blocks that are read
	caches := [2]*Cache{New(capacity), New(capacity)}
	rounds := 30000
	if testing.Short() || testenv.Race {
		rounds = 3000
	}
	var stop atomic.Bool
	var readers, evictor sync.WaitGroup
	for g := range 4 {
		readers.Go(func() { hammer(t, caches[g%2], uint64(g%2)<<32, uint64(g), rounds) })
	}
	evictor.Go(func() {
		for i := uint64(0); !stop.Load(); i++ {
			caches[i%2].EvictFile(i % 5)
		}
	})
	readers.Wait()
	stop.Store(true)
	evictor.Wait()
	for i, c := range caches {
		if s := c.Stats(); s.Bytes > capacity {
			t.Errorf("cache %d: %d bytes are held with nothing pinned", i, s.Bytes)
		}
		for file := range uint64(5) {
			c.EvictFile(file)
		}
		if s := c.Stats(); s != (Stats{}) {
			t.Errorf("cache %d: Stats after all files were evicted: %+v", i, s)
		}
	}
}

// hammer reads random blocks and inserts those that are missing. It keeps a few pinned,
// and checks them again before it releases them. The bytes belong to the key with mark.
func hammer(t *testing.T, c *Cache, mark, seed uint64, rounds int) {
	rng := rand.New(rand.NewPCG(seed, 5))
	bytesOf := func(k Key) Key { return Key{k.File | mark, k.Offset} }
	var held []*Block
	var keys []Key
	for range rounds {
		n := rng.Uint64N(2500)
		if rng.IntN(2) == 0 {
			n %= 100
		}
		k := Key{n % 5, n}
		b := c.Get(k)
		if b == nil {
			b = c.AllocAt(k, 3000+int(n))
			fillFor(b, bytesOf(k))
			b = c.Insert(k, b)
		}
		if !checkFor(t, b, bytesOf(k)) {
			return
		}
		held, keys = append(held, b), append(keys, k)
		if len(held) > 8 {
			i, last := rng.IntN(len(held)), len(held)-1
			if !checkFor(t, held[i], bytesOf(keys[i])) {
				return
			}
			held[i].Release()
			held[i], keys[i] = held[last], keys[last]
			held, keys = held[:last], keys[:last]
		}
	}
	for i, b := range held {
		checkFor(t, b, bytesOf(keys[i]))
		b.Release()
	}
}

// Get finds a block that is in the cache during the whole call, whatever other blocks move.
func TestCache_FindsWhatIsThere(t *testing.T) {
	c := New(1 << 20)
	hot := Key{1, 1}
	add(c, hot, 100)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(0); !stop.Load(); i++ {
			add(c, Key{2, i}, 100)
			if i%64 == 0 {
				c.EvictFile(2)
			}
		}
	})
	for range 200000 {
		if !holds(c, hot) {
			t.Error("a block that is asked for all the time was not found")
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestCache_HitDoesNotAllocate(t *testing.T) {
	c := New(1 << 20)
	add(c, Key{1, 1}, 4096)
	if n := testing.AllocsPerRun(1000, func() { c.Get(Key{1, 1}).Release() }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

func TestRelease_TooOften(t *testing.T) {
	b := New(0).Alloc(1 << 21) // too large for the pool, which must not see it
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("a Release too many goes unnoticed")
		}
	}()
	b.Release()
}

package cache

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
)

// offHeap returns how many bytes a cache has outside the Go heap.
func (m *mappings) offHeap() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.set {
		if !p.discarded {
			n += int64(len(p.mem))
		}
	}
	return n
}

// checkArena checks that the pieces of each chunk fill it, that
// no two holes are neighbours, and that every hole is in its bin.
func checkArena(t *testing.T, s *shard) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.arena
	holes, taken := map[*Block]bool{}, int64(0)
	checkSparse(t, a)
	for _, c := range a.chunks {
		if c.first == nil {
			continue
		}
		taken += int64(a.chunkBytes)
		at, live := 0, 0
		var left *Block
		for b := c.first; b != nil; b = b.right {
			if int(b.off) != at || b.left != left || b.chunk != c || &b.buf[:1][0] != &c.mem[at] {
				t.Fatalf("a piece at %d, want it at %d, behind its neighbour", b.off, at)
			}
			if b.hole {
				holes[b] = true
				if left != nil && left.hole {
					t.Fatalf("two holes side by side at %d", at)
				}
			} else {
				live += cap(b.buf)
			}
			at, left = at+cap(b.buf), b
		}
		if at != a.chunkBytes || live != c.live {
			t.Fatalf("pieces of %d bytes in a chunk of %d, %d in use, counted %d", at, a.chunkBytes, live, c.live)
		}
	}
	if taken != a.taken {
		t.Fatalf("%d bytes of chunks, counted %d", taken, a.taken)
	}
	for bin, b := range a.bins {
		if (b != nil) != (a.filled[bin/64]>>(bin%64)&1 != 0) {
			t.Fatalf("bin %d is not marked as what it is", bin)
		}
		for ; b != nil; b = b.older {
			if !holes[b] || binOf(cap(b.buf)) != bin {
				t.Fatalf("bin %d has a piece of %d bytes that is no hole of it", bin, cap(b.buf))
			}
			delete(holes, b)
		}
	}
	if len(holes) > 0 {
		t.Fatalf("%d holes are in no bin", len(holes))
	}
}

// checkSparse checks that sparse has the chunks that are at most half full, and no
// others, and that its first is the emptiest. unused has the chunks not in use.
func checkSparse(t *testing.T, a *arena) {
	t.Helper()
	in, unused := 0, 0
	var least *chunk
	for _, c := range a.chunks {
		if c.first == nil {
			unused++
			if !slices.Contains(a.unused, c) || c.place != 0 {
				t.Fatalf("chunk %d is not in use, but has place %d, or can't be used again", c.id, c.place)
			}
			continue
		}
		if want := c.live <= a.chunkBytes/2; want != (c.place > 0) || want && a.sparse[c.place-1] != c {
			t.Fatalf("chunk %d with %d of %d bytes has place %d", c.id, c.live, a.chunkBytes, c.place)
		}
		if c.place > 0 {
			in++
			if least == nil || c.emptier(least) {
				least = c
			}
		}
	}
	if in != len(a.sparse) || unused != len(a.unused) || a.sparse.least() != least {
		t.Fatalf("%d chunks are sparse, want %d; %d are unused, want %d; the emptiest is %v, want %v", len(a.sparse), in, len(a.unused), unused, a.sparse.least(), least)
	}
}

// TestSparse changes the bytes of chunks at random, takes some into use and gives others
// back. After each change the emptiest is that which a walk through all chunks finds.
func TestSparse(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	a := &arena{chunkBytes: 100}
	most := 0
	for range 20_000 {
		switch i := rng.IntN(60); {
		case i == len(a.chunks):
			a.chunks = append(a.chunks, &chunk{id: i, mem: make([]byte, 100), first: new(Block)})
			a.sparse.update(a.chunks[i])
		case i > len(a.chunks):
		case a.chunks[i].first == nil:
			a.chunks[i].first = new(Block)
			a.unused = slices.DeleteFunc(a.unused, func(c *chunk) bool { return c == a.chunks[i] })
			a.sparse.update(a.chunks[i])
		case a.chunks[i].live == 0:
			a.chunks[i].first = nil
			a.unused = append(a.unused, a.chunks[i])
			a.sparse.update(a.chunks[i])
		default:
			a.chunks[i].live = max(0, rng.IntN(110)-10)
			a.sparse.update(a.chunks[i])
		}
		checkSparse(t, a)
		most = max(most, len(a.sparse))
	}
	if most < 10 {
		t.Errorf("never more than %d chunks were sparse", most)
	}
}

// manyChunks returns a full cache of one shard with n chunks, which is fewer in a cache that New makes.
func manyChunks(n int) (c *Cache, miss func()) {
	c = New(2<<20 - 1)
	s := &c.shards[0]
	s.capacity = int64(n) * minChunkBytes * 11 / 10
	next := uint64(0)
	miss = func() {
		next++
		k := Key{1, next}
		c.Insert(k, c.AllocAt(k, 4096)).Release()
	}
	for range 20 * n {
		miss()
	}
	return c, miss
}

// An eviction looks at no chunk but those that it takes blocks from. The list of chunks
// is cleared, so that a walk through it would be a fault.
func TestEvict_LooksAtNoOtherChunk(t *testing.T) {
	const n = 300
	c, miss := manyChunks(n)
	s := &c.shards[0]
	if len(s.arena.chunks) < n*9/10 || s.mayGrow() {
		t.Fatalf("%d chunks of %d, and more would fit", len(s.arena.chunks), n)
	}
	chunks := slices.Clone(s.arena.chunks)
	clear(s.arena.chunks)
	before := c.Stats().Blocks
	for range 2000 {
		miss()
	}
	if after := c.Stats().Blocks; after > before+2 || after < before*9/10 {
		t.Errorf("%d blocks, %d before 2000 misses", after, before)
	}
	copy(s.arena.chunks, chunks)
	checkArena(t, s)
	c.Close()
}

// The sizes of blocks change again and again, and some blocks are pinned. The
// cache stays within its capacity, and most of its memory is in use by blocks.
func TestArena_SizesShift(t *testing.T) {
	const capacity = 16 << 20
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	c := New(capacity)
	m := c.shards[0].mapped
	inserts := 20000
	if testing.Short() || testenv.Race {
		inserts = 4000
	}
	var pinned []*Block
	var keys []Key
	least, n := 1.0, uint64(0)
	for _, sizes := range [][2]int{{4000, 4400}, {300, 600}, {15000, 40000}, {4000, 4400}, {200, 30000}, {700000, 900000}, {1000, 5000}} {
		for i := range inserts * 4000 / (4000 + sizes[1]) {
			n++
			k := Key{n % 7, n}
			b := c.AllocAt(k, sizes[0]+rng.IntN(sizes[1]-sizes[0]))
			fillFor(b, k)
			b = c.Insert(k, b)
			if rng.IntN(200) == 0 {
				pinned, keys = append(pinned, b), append(keys, k)
			} else {
				b.Release()
			}
			if len(pinned) > 10 {
				checkFor(t, pinned[0], keys[0])
				pinned[0].Release()
				pinned, keys = pinned[1:], keys[1:]
			}
			holds(c, Key{(n - 100) % 7, n - 100})
			if i%256 == 0 {
				atMost := int64(capacity) + 11*sizeOf(pinned)
				if s := c.Stats(); s.Bytes > atMost || m.offHeap() > atMost {
					t.Fatalf("sizes %v: %d bytes counted, %d taken beside the heap, of %d", sizes, s.Bytes, m.offHeap(), capacity)
				}
			}
		}
		held := int64(0)
		for i := range c.shards {
			checkArena(t, &c.shards[i])
			for b := c.shards[i].order.oldest; b != nil; b = b.newer {
				held += int64(len(b.buf)) + blockOverhead
			}
		}
		share := float64(held) / capacity
		t.Logf("sizes %v: blocks are %.3f of the capacity", sizes, share)
		least = min(least, share)
	}
	if least < 0.7 && !testing.Short() && !testenv.Race {
		t.Errorf("after sizes changed, blocks were only %.3f of the capacity", least)
	}
	for _, b := range pinned {
		b.Release()
	}
	c.Close()
	if s := c.Stats(); s != (Stats{}) || m.offHeap() != 0 {
		t.Errorf("after Close: %+v, %d bytes beside the heap", s, m.offHeap())
	}
}

func sizeOf(blocks []*Block) (most int64) {
	for _, b := range blocks {
		most = max(most, int64(cap(b.buf)))
	}
	return most
}

// A small cache, and a large one with few blocks, take no memory outside the Go heap.
func TestArena_ChunksOfRoundCapacities(t *testing.T) {
	for capacity, want := range map[int64]int{1 << 30: 2 << 20, 512 << 20: 1 << 20, 1<<30 - 1: 1 << 20, 8 << 30: 2 << 20} {
		if got := New(capacity).shards[0].arena.chunkBytes; got != want {
			t.Errorf("a cache of %d bytes has chunks of %d, want %d: huge pages have 2 MiB", capacity, got, want)
		}
	}
}

func TestArena_SmallOnHeap(t *testing.T) {
	small, large := New(looseBytes), New(1<<30)
	for i := range uint64(1000) {
		k := Key{1, i}
		small.Insert(k, small.AllocAt(k, 4096)).Release()
		if i < 100 {
			large.Insert(k, large.AllocAt(k, 4096)).Release()
		}
	}
	if n := small.shards[0].mapped.offHeap() + large.shards[0].mapped.offHeap(); n != 0 {
		t.Errorf("%d bytes beside the heap", n)
	}
	if n := large.Stats().Blocks; n != 100 {
		t.Errorf("%d blocks in the large cache, want 100", n)
	}
}

// The memory of a cache that was not closed is freed when nobody can
// reach the cache, and not before. A pinned block keeps it reachable.
func TestArena_Abandoned(t *testing.T) {
	var m *mappings
	pinned := func() *Block {
		c := New(8 << 20)
		m = c.shards[0].mapped
		var b *Block
		for i := range uint64(1500) {
			k := Key{3, i}
			if i%100 == 0 {
				c.Insert(k, c.AllocAt(k, 70001)).Release() // a mapping of its own
				continue
			}
			if b = c.AllocAt(k, 4096); i == 1499 {
				fillFor(b, k)
				return c.Insert(k, b)
			}
			c.Insert(k, b).Release()
		}
		return nil
	}()
	taken := offheap.InUse()
	was := m.offHeap()
	if was == 0 {
		t.Fatal("nothing was taken beside the heap")
	}
	for range 3 {
		runtime.GC()
	}
	checkFor(t, pinned, Key{3, 1499})
	pinned.Release()
	pinned = nil
	for range 1000 {
		if runtime.GC(); m.offHeap() == 0 {
			if n := offheap.InUse(); n > taken-was {
				t.Errorf("%d bytes are counted as taken, %d before, of which %d were freed", n, taken, was)
			}
			return
		}
		time.Sleep(10 * time.Millisecond) // cleanups run in a goroutine of their own
	}
	t.Errorf("%d bytes are still taken", m.offHeap())
}

// Close leaves pinned blocks alone, and the last Release gives their memory back.
func TestArena_PinnedAtClose(t *testing.T) {
	c := New(8 << 20)
	m := c.shards[0].mapped
	var pinned []*Block
	for i := range uint64(1500) {
		k := Key{1, i}
		b := c.AllocAt(k, 4096)
		fillFor(b, k)
		if b = c.Insert(k, b); i%700 == 699 {
			pinned = append(pinned, b)
		} else {
			b.Release()
		}
	}
	c.Close()
	if holds(c, Key{1, 1}) {
		t.Error("a closed cache has blocks")
	}
	checkFor(t, pinned[0], Key{1, 699})
	checkFor(t, pinned[1], Key{1, 1399})
	add(c, Key{1, 5}, 4096) // a reader that came late
	for _, b := range pinned {
		b.Release()
	}
	if s := c.Stats(); s != (Stats{}) || m.offHeap() != 0 {
		t.Errorf("after the last Release: %+v, %d bytes beside the heap", s, m.offHeap())
	}
}

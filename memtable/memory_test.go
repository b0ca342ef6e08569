package memtable

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
)

// fillTo adds entries with values of 1000 bytes until m has size bytes.
func fillTo(m *Memtable, size int64) {
	value := make([]byte, 1000)
	for i := 0; m.Size() < size; i++ {
		key := fmt.Appendf(nil, "key%08d", i*7919%1000003)
		m.BeginWrite()
		m.Add(base.Seq(i+1), base.KindPut, key, value)
		m.EndWrite()
	}
}

// TestMemory_IsUsedAgain fills, releases and fills. A memtable takes the memory of the one
// before, and Close gives it back. The first one began on the heap, so it had one chunk less.
func TestMemory_IsUsedAgain(t *testing.T) {
	const size = 8 << 20
	before := offheap.InUse()
	p := NewPool(size)
	var first, taken int64
	for i := range 5 {
		m := New(Options{Size: size, Pool: p})
		fillTo(m, size)
		switch got := offheap.InUse() - before; {
		case i == 0:
			first = got
		case i == 1:
			taken = got
		case got != taken:
			t.Errorf("round %d: %d bytes in use, %d in the one before", i, got, taken)
		}
		m.Release()
	}
	if first < size/2 || taken < first || taken > min(first+chunkSize, size) {
		t.Errorf("%d, then %d bytes beside the heap for a memtable of %d", first, taken, size)
	}
	p.Close()
	if got := offheap.InUse() - before; got != 0 {
		t.Errorf("%d bytes are left after Close", got)
	}
}

// TestMemory_SmallOnesTakeNone checks that small memtables have no memory off the heap.
func TestMemory_SmallOnesTakeNone(t *testing.T) {
	before := offheap.InUse()
	m := New(Options{Pool: NewPool(0)})
	fillTo(m, 900<<10)
	if got := offheap.InUse() - before; got != 0 {
		t.Errorf("%d bytes beside the heap", got)
	}
}

// TestMemory_PinKeeps reads slices that were pinned before Release, and can't pin after it.
func TestMemory_PinKeeps(t *testing.T) {
	before := offheap.InUse()
	m := New(Options{Size: 4 << 20})
	fillTo(m, 4<<20)
	if !m.Pin() {
		t.Fatal("no pin")
	}
	it := m.NewIterator()
	kv := it.Last()
	key := string(kv.UserKey)
	m.Release()
	if offheap.InUse() == before || string(kv.UserKey) != key {
		t.Error("the memory has gone under a pin")
	}
	m.Unpin()
	if got := offheap.InUse() - before; got != 0 {
		t.Errorf("%d bytes are left after the last Unpin", got)
	}
	if m.Pin() {
		t.Error("pinned what has gone")
	}
	if m.Len() == 0 || m.LastSeq() == 0 {
		t.Error("the counts have gone with the memory")
	}
}

// TestMemory_ReadersAndRelease lets readers pin, read and compare while the owner releases
// one memtable after the other, all with the same memory. As in a store, readers find a
// memtable until it is released, and a reader that has found it may pin it a little later.
// The last one to unpin frees the memory. (If there were always new readers, the pins might
// never become zero.)
func TestMemory_ReadersAndRelease(t *testing.T) {
	const size = 2 << 20
	p := NewPool(size)
	defer p.Close()
	for range 5 {
		m := New(Options{Size: size, Pool: p})
		fillTo(m, size)
		m.Freeze()
		var wg sync.WaitGroup
		var released atomic.Bool
		for range 4 {
			wg.Go(func() {
				for late := 0; late < 3 && m.Pin(); {
					if released.Load() {
						late++
					}
					key := []byte("key00000000")
					value, _, found, _ := m.Get(key, base.MaxSeq)
					if !found || len(value) != 1000 || value[0] != 0 || value[999] != 0 {
						t.Error("read something else under a pin")
						m.Unpin()
						return
					}
					m.Unpin()
				}
			})
		}
		for range 1000 {
			m.MayContain([]byte("k"))
		}
		m.Pack()
		m.Release()
		released.Store(true)
		wg.Wait()
		if m.Pin() {
			t.Fatal("pinned after the last reader has gone")
		}
	}
}

// fillLarge fills a memtable with values of n bytes until it has size bytes.
func fillLarge(m *Memtable, n int, size int64) {
	value := make([]byte, n)
	for i := 0; m.Size() < size; i++ {
		m.BeginWrite()
		m.Add(base.Seq(i+1), base.KindPut, fmt.Appendf(nil, "key%08d", i), value)
		m.EndWrite()
	}
}

// Large values take the memory of those before, also if they are a little shorter. When their size changes, the pool goes
// over to the new one, and never has more than a memtable needs.
func TestMemory_OfLargeValuesIsUsedAgain(t *testing.T) {
	const size = 16 << 20
	before := offheap.InUse()
	p := NewPool(size)
	for i, n := range []int{2 << 20, 2 << 20, 2<<20 - 200<<10, 1200 << 10, 1200 << 10, 1200 << 10, 3 << 20, 1000, 1000} {
		kept := offheap.InUse() - before
		m := New(Options{Size: size, Pool: p})
		fillLarge(m, n, size)
		taken := offheap.InUse() - before
		again := i == 1 || i == 2 || i == 5
		if again && taken > kept+int64(n)+chunkSize {
			t.Errorf("fill %d: %d bytes in use, of which the pool had %d", i, taken, kept)
		}
		m.Release()
		if left := offheap.InUse() - before; left > size || again && left < size*3/4 {
			t.Errorf("fill %d: the pool has %d bytes", i, left)
		}
	}
	p.Close()
	if got := offheap.InUse() - before; got != 0 {
		t.Errorf("%d bytes are left after Close", got)
	}
}

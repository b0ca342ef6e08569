package memtable

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// raceKey returns a key that fits into the two words of an entry for even numbers, and one
// that does not for odd ones. The keys are spread, so that inserts and splits happen all over
// the tree.
func raceKey(n uint64) []byte {
	n *= 7919
	if n%2 == 0 {
		return fmt.Appendf(nil, "k%x", n%100_003)
	}
	return fmt.Appendf(nil, "a key that is long %x", n%100_003)
}

// TestConcurrent_ReadersBesideTheWriter writes groups while other goroutines get, scan and
// ask the filter, until and after Pack. Each reader checks that it sees everything that it
// may see: what was published, whole groups, in order.
func TestConcurrent_ReadersBesideTheWriter(t *testing.T) {
	const groups, groupSize = 400, 10
	m := New(Options{Size: 1 << 16})
	var published atomic.Uint64
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for range groups {
			first := published.Load()
			m.BeginWrite()
			for i := range uint64(groupSize) {
				n := first + i + 1
				key := raceKey(n)
				m.Add(base.Seq(n), base.KindPut, key, key)
			}
			m.EndWrite()
			published.Store(first + groupSize)
		}
		m.Freeze()
		m.Pack()
		done.Store(true)
	})
	for range 3 {
		wg.Go(func() {
			for n, last := uint64(1), false; !last; n++ {
				last = done.Load()
				checkGet(t, m, published.Load(), n)
			}
		})
		wg.Go(func() {
			for last := false; !last; {
				last = done.Load()
				checkScans(t, m, published.Load())
			}
		})
	}
	wg.Wait()
	checkScans(t, m, groups*groupSize)
}

func checkGet(t *testing.T, m *Memtable, seq, n uint64) {
	if seq == 0 {
		return
	}
	key := raceKey(n%seq + 1)
	if !m.MayContain(key) {
		t.Errorf("MayContain denies %q", key)
	}
	value, _, found, _ := m.Get(key, base.Seq(seq))
	if !found || string(value) != string(key) {
		t.Errorf("Get(%q, %d) = %q, %t", key, seq, value, found)
	}
}

// checkScans walks all entries that a reader at seq sees, both ways.
func checkScans(t *testing.T, m *Memtable, seq uint64) {
	it := m.NewIterator()
	defer it.Close()
	n := uint64(0)
	var prev base.InternalKey // a slice of the arena, valid as long as the memtable is
	for kv := it.First(); kv != nil; kv = it.Next() {
		if prev.UserKey != nil && base.Compare(prev, kv.InternalKey) >= 0 {
			t.Errorf("%s before %s", prev, kv.InternalKey)
		}
		if prev = kv.InternalKey; kv.Seq() <= base.Seq(seq) {
			n++
		}
		if string(kv.Value) != string(kv.UserKey) {
			t.Errorf("%s has value %q", kv.InternalKey, kv.Value)
		}
	}
	if n != seq {
		t.Errorf("forward: %d entries, want %d", n, seq)
	}
	n = 0
	for kv := it.Last(); kv != nil; kv = it.Prev() {
		if kv.Seq() <= base.Seq(seq) {
			n++
		}
	}
	if n != seq {
		t.Errorf("backward: %d entries, want %d", n, seq)
	}
}

// TestConcurrent_NoLockWhileUnused writes and freezes while an iterator is in the middle. The
// test would hang if the iterator held the lock.
func TestConcurrent_NoLockWhileUnused(t *testing.T) {
	m := build(t, "a#1,PUT", "b#2,PUT", "c#3,PUT")
	it := m.NewIterator()
	it.First()
	m.BeginWrite()
	if kv := it.Next(); kv.String() != "b#2,PUT" { // within the run, so without the lock
		t.Errorf("Next() = %s, want b#2,PUT", kv)
	}
	m.Add(4, base.KindPut, []byte("d"), nil)
	m.EndWrite()
	m.Freeze()
	for _, want := range []string{"c#3,PUT", "d#4,PUT"} {
		if kv := it.Next(); kv == nil || kv.String() != want {
			t.Errorf("Next() = %v, want %s", kv, want)
		}
	}
	if kv := it.Next(); kv != nil || it.Err() != nil {
		t.Errorf("Next() at the end = %v, %v", kv, it.Err())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}

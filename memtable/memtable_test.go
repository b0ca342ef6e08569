package memtable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
)

// build returns a memtable of entries in text notation: b#7,DEL or b#7,PUT=value.
func build(t testing.TB, entries ...string) *Memtable {
	t.Helper()
	m := New(Options{Size: 1 << 12})
	m.BeginWrite()
	for _, s := range entries {
		text, value, _ := strings.Cut(s, "=")
		k, err := base.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Add(k.Seq(), k.Kind(), k.UserKey, []byte(value))
	}
	m.EndWrite()
	return m
}

func TestAdd_EqualKeyReplaces(t *testing.T) {
	m := build(t, "a#1,PUT=first", "a#1,PUT=second")
	if value, _, _, _ := m.Get([]byte("a"), 1); string(value) != "second" || m.Len() != 1 {
		t.Errorf("Get = %q of %d entries, want the second of one", value, m.Len())
	}
}

func TestKeys_OfEveryLength(t *testing.T) {
	lengths := []int{0, 1, 15, 16, 17, 255, 256, 4096, maxKeyLen}
	m := New(Options{})
	m.BeginWrite()
	for _, n := range lengths {
		key := bytes.Repeat([]byte("k"), n)
		m.Add(1, base.KindPut, key, fmt.Append(nil, n))
	}
	m.EndWrite()
	for _, n := range lengths {
		if value, _, _, _ := m.Get(bytes.Repeat([]byte("k"), n), 1); string(value) != fmt.Sprint(n) {
			t.Errorf("Get of %d bytes = %q", n, value)
		}
	}

	// A search key may be longer than any key of a memtable.
	long := bytes.Repeat([]byte("k"), maxKeyLen+1)
	if _, _, found, _ := m.Get(long, base.MaxSeq); found {
		t.Errorf("Get found a key of %d bytes", len(long))
	}
	it := m.NewIterator()
	if kv := it.SeekGE(long, base.MaxSeq); kv != nil {
		t.Errorf("SeekGE of %d bytes = a key of %d bytes, want none", len(long), len(kv.UserKey))
	}
	if kv := it.SeekLT(long); kv == nil || len(kv.UserKey) != maxKeyLen {
		t.Errorf("SeekLT of %d bytes = %v, want the longest key", len(long), kv)
	}
}

func TestAdd_Misuse(t *testing.T) {
	tests := []struct {
		name   string
		misuse func(m *Memtable)
	}{
		{"key too long", func(m *Memtable) { m.Add(1, base.KindPut, make([]byte, maxKeyLen+1), nil) }},
		{"sequence number 0", func(m *Memtable) { m.Add(0, base.KindPut, nil, nil) }},
		{"frozen", func(m *Memtable) {
			m.EndWrite()
			m.Freeze()
			m.BeginWrite()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := New(Options{})
			m.BeginWrite()
			defer m.EndWrite()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			test.misuse(m)
		})
	}
}

// TestFilter_NeverDenies adds far more entries than the filter was made for.
func TestFilter_NeverDenies(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, bits := range []float64{-1, 0.1, 0, 30} {
		m := New(Options{Size: 1, filterBits: bits})
		hashes := make([]uint64, 20_000)
		m.BeginWrite()
		for i := range hashes {
			key := fmt.Append(nil, r.Uint64())
			hashes[i] = bloom.Hash(key)
			m.Add(1, base.KindPut, key, nil)
			if !m.MayContainHash(hashes[i]) {
				t.Fatalf("%v bits: denied at once", bits)
			}
		}
		m.EndWrite()
		for _, h := range hashes {
			if !m.MayContainHash(h) {
				t.Fatalf("%v bits: denied in the end", bits)
			}
		}
		if got := m.FilterSize() > 0; got != (bits >= 0) {
			t.Errorf("%v bits: filter of %d bytes", bits, m.FilterSize())
		}
	}
}

// TestFilter_Empty: a memtable without keys has no filter, and says no to all keys, unless it is to have none.
func TestFilter_Empty(t *testing.T) {
	for _, bits := range []float64{-1, 0} {
		m := New(Options{filterBits: bits})
		if got := m.MayContain([]byte("a")); got != (bits < 0) || m.FilterSize() != 0 {
			t.Errorf("%v bits: MayContain = %v, %d bytes", bits, got, m.FilterSize())
		}
		out := []bool{false, true, false, false}
		m.MayContainMany([]uint64{1, 2}, out)
		if want := []bool{bits < 0, bits < 0, true, true}; !slices.Equal(out, want) {
			t.Errorf("%v bits: MayContainMany = %v, want %v", bits, out, want)
		}
	}
}

func TestSummary_EmptyAndFilled(t *testing.T) {
	m := New(Options{})
	if !m.Empty() || m.Len() != 0 || m.Size() != 0 || m.firstSeq() != 0 || m.LastSeq() != 0 {
		t.Errorf("fresh: %v", m)
	}
	if _, _, found, _ := m.Get([]byte("a"), 1); found {
		t.Error("Get found something in an empty memtable")
	}
	m = build(t, "a#7,PUT=12345", "b#5,DEL", "c#6,PUT")
	if got, want := m.String(), "memtable of 3 entries, 188 bytes, sequence numbers 5 to 7"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

// TestSize_NearTheHeap compares Size with what the runtime measures.
func TestSize_NearTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 2 × 200,000 entries")
	}
	if testenv.Race {
		t.Skip("the race detector changes what allocations take")
	}
	for _, shape := range benchKeys[:3] {
		t.Run(shape.name, func(t *testing.T) {
			keys := makeKeys(shape.key, 200_000)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.GC() // what earlier tests have left with a cleanup goes with the second
			runtime.ReadMemStats(&before)
			beside := offheap.InUse()
			m := New(Options{filterBits: -1})
			fill(m, keys, make([]byte, 20))
			runtime.GC()
			runtime.ReadMemStats(&after)
			heap := int64(after.HeapAlloc-before.HeapAlloc) + offheap.InUse() - beside
			t.Logf("Size() = %d, heap %d, %d for the tree and unused", m.Size(), heap, (heap-m.arena.used)/int64(m.Len()))
			if ratio := float64(m.Size()) / float64(heap); ratio < 0.85 || ratio > 1.15 {
				t.Errorf("Size() = %d, %.2f of the heap's %d", m.Size(), ratio, heap)
			}
			runtime.KeepAlive(keys)
			m.Release()
		})
	}
}

func TestAllocations_None(t *testing.T) {
	m := build(t, "a#1,PUT=x", "a-key-of-20-bytes-at#6,PUT=long")
	g := newRig(t, 3)
	g.write(1000)
	it := g.m.NewIterator()
	for range 2 {
		for kv := it.First(); kv != nil; kv = it.Next() {
		}
	}
	short, long := []byte("a"), []byte("a-key-of-20-bytes-at")
	m.Get(long, 9)
	tests := []struct {
		name string
		fn   func()
	}{
		{"Get", func() { m.Get(short, 9) }},
		{"Get of a long key", func() { m.Get(long, 9) }},
		{"Get of a key on the stack", func() { m.Get([]byte("on the caller's stack"), 9) }},
		{"MayContain", func() { m.MayContain([]byte("k")) }},
		{"SeekGE", func() { it.SeekGE(long, 9) }},
		{"SeekLT", func() { it.SeekLT(long) }},
		{"walk", func() {
			for kv := it.First(); kv != nil; kv = it.Next() {
			}
		}},
		{"walk back", func() {
			for kv := it.Last(); kv != nil; kv = it.Prev() {
			}
		}},
	}
	for _, test := range tests {
		if n := testing.AllocsPerRun(100, test.fn); n != 0 {
			t.Errorf("%s: %v allocations, want 0", test.name, n)
		}
	}
}

// A write to a memtable that is frozen is a mistake of the caller's, and is caught.
func TestMemtable_WriteAfterFreeze(t *testing.T) {
	m := New(Options{Size: 64 << 10})
	defer m.Release()
	m.Freeze()
	defer func() {
		if recover() == nil {
			t.Error("a write to a frozen memtable went well")
		}
		if _, _, found, _ := m.Get([]byte("k"), base.MaxSeq); found {
			t.Error("the write is there")
		}
	}()
	m.Add(1, base.KindPut, []byte("k"), nil)
	m.EndWrite()
}

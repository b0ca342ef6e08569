package memtable

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// TestAdd_LeavesReadersRoom reads between the Adds of one large group. The lock is always
// free, and at most stageSize entries have come since the read before. This holds for a large
// value too, although its copy takes long.
func TestAdd_LeavesReadersRoom(t *testing.T) {
	m := New(Options{Size: 1 << 20})
	defer m.Release()
	last := 0
	m.BeginWrite()
	for i := range 10 * stageSize {
		value := []byte("v")
		if i%500 == 499 {
			value = make([]byte, 2*chunkSize)
		}
		m.Add(base.Seq(i+1), base.KindPut, fmt.Appendf(nil, "key%06d", i), value)
		if !m.mu.TryRLock() {
			t.Fatalf("entry %d: the writer keeps readers out between two Adds", i)
		}
		m.mu.RUnlock()
		if n := m.Len(); n-last > stageSize {
			t.Fatalf("entry %d: %d entries came under one lock, want at most %d", i, n-last, stageSize)
		} else {
			last = n
		}
	}
	m.EndWrite()
	if n := m.Len(); n-last > stageSize {
		t.Errorf("%d entries came under the last lock, want at most %d", n-last, stageSize)
	}
	if m.Len() != 10*stageSize || m.LastSeq() != 10*stageSize || m.firstSeq() != 1 {
		t.Errorf("in the end: %v", m)
	}
}

// TestFilter_OwnHasher checks that a memtable finds its keys with every hash function, and
// that MayContainHash takes a hash of that function.
func TestFilter_OwnHasher(t *testing.T) {
	for _, id := range []bloom.HashID{bloom.HashMurmur3, bloom.HashXXH3, bloom.HashSipHash} {
		seed := uint64(7)
		if id == bloom.HashMurmur3 {
			seed = 0 // this function has no seed
		}
		h, err := bloom.NewHasher(id, seed)
		if err != nil {
			t.Fatal(err)
		}
		m := New(Options{Size: 1 << 20, Hasher: h})
		m.BeginWrite()
		for i := range 1000 {
			m.Add(base.Seq(i+1), base.KindPut, fmt.Append(nil, i), nil)
		}
		m.EndWrite()
		for i := range 1000 {
			key := fmt.Append(nil, i)
			if !m.MayContain(key) || !m.MayContainHash(h.Hash(key)) {
				t.Fatalf("%v: key %s is denied", h, key)
			}
		}
	}
}

package memtable

import (
	"fmt"
	"testing"

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

package cache

import (
	"sync"
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// mappings is what a cache has beside the Go heap. It is freed when nobody can
// reach the cache any more, whether that was closed or not: every block keeps
// its shard reachable, pinned ones too, and with it the array of all shards, to
// which the cleanup is attached. It must not point to them.
type mappings struct {
	mu  sync.Mutex
	set map[*byte]mapping
}

type mapping struct {
	mem       []byte
	discarded bool
}

func (m *mappings) add(b []byte)     { m.put(mapping{b, false}) }
func (m *mappings) discard(b []byte) { m.put(mapping{b, true}) }

func (m *mappings) put(p mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set == nil {
		m.set = make(map[*byte]mapping)
	}
	m.set[unsafe.SliceData(p.mem)] = p
}

func (m *mappings) remove(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.set, unsafe.SliceData(b))
}

// free frees all of it.
func (m *mappings) free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.set {
		if p.discarded {
			offheap.FreeDiscarded(p.mem)
		} else {
			offheap.Free(p.mem)
		}
	}
	m.set = nil
}

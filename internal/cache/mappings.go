package cache

import (
	"sync"
	"unsafe"

	"github.com/shaledb/shale/internal/offheap"
)

// mappings is the list of a cache's memory outside the Go heap. A cleanup frees it
// when nobody can reach the cache any more, whether or not the cache was closed.
//
// The cleanup is attached to the array of shards. Every block keeps its shard
// reachable, and with it the whole array, so a pinned block keeps the memory. mappings
// must not point to the shards, because they would then never become unreachable.
type mappings struct {
	mu  sync.Mutex // guards set
	set map[*byte]mapping
}

// A mapping is one piece of memory from package offheap.
type mapping struct {
	mem       []byte
	discarded bool // its memory was given back, but not its addresses
}

func (m *mappings) add(b []byte)     { m.put(mapping{b, false}) }
func (m *mappings) discard(b []byte) { m.put(mapping{b, true}) }

// put adds a mapping, or replaces what is known of it.
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

// free frees all mappings.
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

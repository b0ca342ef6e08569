package memtable

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
)

// degree is the B-tree's: a node holds up to 2*degree-1 entries.
const degree = 32

// entryBytes is what the tree takes for an entry of 32 bytes, on average over
// half-full and full nodes.
const entryBytes = 64

// BeginWrite opens a group of Adds by keeping readers out until EndWrite.
// One writer at a time. It panics after Freeze: the owner has lost track of
// which memtable takes writes, and going on would lose some.
func (m *Memtable) BeginWrite() {
	m.mu.Lock()
	if m.frozen.Load() {
		m.mu.Unlock()
		panic("memtable: write after Freeze")
	}
}

// Add adds an entry, copying key and value. hash is bloom.Hash(key). An equal
// internal key that is there already is replaced.
//
// Requires: between BeginWrite and EndWrite; len(key) <= MaxKeyLen;
// len(value) < 4 GiB.
func (m *Memtable) Add(seq base.Seq, kind base.Kind, key, value []byte, hash uint64) {
	if len(key) > MaxKeyLen || uint64(len(value)) > 1<<32-1 {
		panic(fmt.Sprintf("memtable: key of %d bytes, value of %d", len(key), len(value)))
	}
	// First the filter, then the tree: nobody finds a key that the filter
	// would have denied.
	if m.filter != nil {
		m.filter.Add(hash)
	}
	addr := m.arena.add(key, value)
	m.tree.ReplaceOrInsert(makeEntry(key, base.NewTrailer(seq, kind), addr))
	if m.first == 0 || seq < m.first {
		m.first = seq
	}
	m.last = max(m.last, seq)
}

// EndWrite lets readers in again and publishes the sizes.
func (m *Memtable) EndWrite() {
	n := int64(m.tree.Len())
	m.n.Store(n)
	m.size.Store(m.arena.used + n*entryBytes)
	m.mu.Unlock()
}

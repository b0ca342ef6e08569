package memtable

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/mutant"
)

// degree is the B-tree's: a node holds up to 2*degree-1 entries. From 16 to 128
// the figures are nearly flat: with 500,000 entries of random keys 340 to 480 ns
// an Add, least at 48, and 520 to 720 a Get. Larger nodes make iterators
// cheaper (a seek takes 790 ns at 16, 720 at 64, 660 at 128).
const degree = 64

// entryBytes is what the tree takes for an entry of 32 bytes. Measured on the
// heap: 39 bytes when keys come in random order, 59 when they ascend, as every
// split then leaves a node half full for good. Size is within an eighth of the
// heap for small entries, and closer for larger ones.
const entryBytes = 48

// pileBytes is by how much the collector lets the heap grow beyond that, most of
// it. With 32, 5 million entries of 116 bytes in no order took 178 MB at most and
// were written 3.07 times, with 40 it is 172 MB and 3.19; with 48, 165 and 3.18,
// but what comes in order is written more often.
const pileBytes = 40

// BeginWrite opens a group of Adds by keeping readers out until EndWrite; the
// writer itself reads nothing but MayContain, Size and Len in between. One
// writer at a time. It panics after Freeze: the owner has lost track of
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
// Requires: between BeginWrite and EndWrite; seq > 0; len(key) <= MaxKeyLen;
// len(value) < 4 GiB.
func (m *Memtable) Add(seq base.Seq, kind base.Kind, key, value []byte, hash uint64) {
	if seq == 0 || len(key) > MaxKeyLen || uint64(len(value)) > 1<<32-1 {
		panic(fmt.Sprintf("memtable: sequence number %d, key of %d bytes, value of %d", seq, len(key), len(value)))
	}
	if mutant.MemtableFilterMissesKey && hash%64 == 0 {
		hash = ^hash
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
	m.size.Store(m.arena.used + m.arena.lost + n*entryBytes)
	m.mu.Unlock()
}

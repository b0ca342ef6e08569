package memtable

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
)

// degree is the B-tree's: a node holds up to 2*degree-1 entries. From 16 to 128
// the figures are nearly flat: with 500,000 entries of random keys 340 to 480 ns
// an Add, least at 48, and 520 to 720 a Get. Larger nodes make iterators
// cheaper (a seek takes 790 ns at 16, 720 at 64, 660 at 128).
const degree = 64

// entryBytes is what the tree takes for an entry of 32 bytes. Measured on the
// heap: 48 bytes when keys come in random order, 68 when they ascend, as every
// split then leaves a node half full for good. Size is within an eighth of the
// heap for small entries, and closer for larger ones.
const entryBytes = 56

// pileBytes is by how much the collector lets the heap grow beyond that, most of
// it. What decides when a memtable is full is the sum of both, 88. With a sum of
// 80, 5 million entries of 116 bytes in no order took 178 MB at most and were
// written 3.07 times; with 88 it is 172 MB and 3.19, and with 96, 165 and 3.18,
// but then what comes in order is written more often.
const pileBytes = 32

// stageSize is how many entries go into the tree under one lock. An insertion
// takes about 400 ns, so a reader waits some 50 microseconds for them.
const stageSize = 128

// BeginWrite begins a group of Adds, which EndWrite ends. One goroutine at a
// time writes. BeginWrite panics after Freeze: the owner has lost track of
// which memtable takes writes, and going on would lose some.
func (m *Memtable) BeginWrite() {
	m.staged = m.staged[:0]
	if m.frozen.Load() {
		panic("memtable: write after Freeze")
	}
}

// Add adds an entry, copying key and value. An equal internal key that is there
// already is replaced. Readers may meet the entry before EndWrite.
//
// Requires: between BeginWrite and EndWrite; seq > 0; len(key) <= maxKeyLen;
// len(value) < 4 GiB.
func (m *Memtable) Add(seq base.Seq, kind base.Kind, key, value []byte) {
	if seq == 0 || len(key) > maxKeyLen || uint64(len(value)) > 1<<32-1 {
		panic(fmt.Sprintf("memtable: sequence number %d, key of %d bytes, value of %d", seq, len(key), len(value)))
	}
	// The filter comes before the tree: nobody finds a key that the filter
	// would have denied.
	if m.filter != nil {
		hash := m.hasher.Hash(key)
		m.filter.Add(hash)
	}
	addr := m.arena.add(key, value)
	m.staged = append(m.staged, makeEntry(key, base.NewTrailer(seq, kind), addr))
	if len(m.staged) == stageSize {
		m.insertStaged()
	}
}

// EndWrite ends the group: all its entries are in the tree when it returns.
func (m *Memtable) EndWrite() { m.insertStaged() }

// insertStaged moves the staged entries into the tree, which keeps readers out
// meanwhile, and updates the sizes.
func (m *Memtable) insertStaged() {
	if len(m.staged) == 0 {
		return
	}
	m.mu.Lock()
	if m.frozen.Load() {
		m.mu.Unlock()
		panic("memtable: write after Freeze")
	}
	for _, e := range m.staged {
		m.tree.ReplaceOrInsert(e)
		if seq := e.trailer.Seq(); m.first == 0 || seq < m.first {
			m.first = seq
		}
		m.last = max(m.last, e.trailer.Seq())
	}
	m.staged = m.staged[:0]
	n := int64(m.tree.Len())
	m.n.Store(n)
	m.size.Store(m.arena.used + m.arena.lost + n*entryBytes)
	m.mu.Unlock()
}

// Package memtable holds the newest writes of a store in memory, in the order
// of internal keys: a B-tree of small entries over an arena of bytes, with a
// Bloom filter in front of it. When it takes no more writes, the tree becomes a
// sorted array. The package is public so that it can be read: its API is not
// covered by the compatibility promise of package shale.
//
// What it guarantees:
//
//  1. MayContain never says no to a key that Get or an iterator would find: a
//     key is in the filter before it is in the tree. The memtable hashes the
//     keys of its filter itself, so nobody can fill it with one hash function
//     and ask it with another.
//  2. Slices it hands out stay valid and unchanged while the memtable is
//     pinned: the arena only grows, and its chunks never move. Who reads pins
//     it (Pin, Unpin); its owner's pin is there from the beginning and ends
//     with Release. Then the memory, most of it beside the heap, goes back to
//     the Pool.
//  3. Add, Get, MayContain and a step of an iterator allocate nothing, but for
//     nodes of the tree, chunks of the arena and an iterator's first buffers.
//
// Concurrency: one writer, which adds entries in groups (BeginWrite, Add, Add,
// ..., EndWrite), and any number of readers. The writer copies keys and values
// without the lock and takes it for at most stageSize entries at a time, so
// that a reader waits some 50 microseconds at most, however large a group is.
// Readers take the lock for one descent at a time and none at all after Pack.
// An iterator holds no lock while it is not being moved. MayContain never
// takes one. Nothing hides an entry of a group that is half added: readers
// bring the sequence number that they may see.
//
// What it leaves out: it never deletes (a tombstone is an entry), knows no
// ranges, and writes no files.
//
// Example: the put of "apple" = "red" with sequence number 7 takes twelve
// bytes of the arena, here the first ones, and the entry on the right.
//
//	61 70 70 6c 65  03 00 00 00  72 65 64      hi      0x6170706c65000000
//	a  p  p  l  e   3            r  e  d       lo      0
//	                                           trailer 7<<8 | 1
//	                                           ref     0<<16 | 5
package memtable

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// Options says how large a memtable is going to be. The zero value is good.
type Options struct {
	// Size is the number of bytes after which the owner is going to flush. The
	// filter is made for it; more entries than expected make the filter say
	// maybe more often and do no other harm. Default 32 MiB.
	Size int64
	// filterBits is the size of the filter in bits a key expected. Default 10,
	// which costs about 1 % of Size. Negative: no filter.
	filterBits float64
	// Hasher is the hash function of the filter. The zero value is murmur3.
	Hasher bloom.Hasher
	// Pool is where memory comes from and goes to. nil: each memtable's is
	// freed when it is released.
	Pool *Pool
}

const (
	defaultSize       = 32 << 20
	defaultFilterBits = 10

	// bytesPerKey is what the filter expects a key, its value and its entry to
	// take together; fewer are no harm.
	bytesPerKey = 128
)

// A Memtable is an ordered set of entries that grows until it is frozen.
type Memtable struct {
	filter *bloom.AtomicBlocked // nil: none; concurrent
	hasher bloom.Hasher         // of the filter; constant
	pivots pivotSlots           // concurrent
	pool   *Pool
	memory *memory // pins, and what is freed when they end

	// staged holds the entries of a group that are not in the tree yet. It
	// belongs to the writer.
	staged []entry

	// Guarded by mu; the writer reads arena without it. Constant once frozen is set, but for tree and sorted, which
	// are constant once packed is set.
	mu     sync.RWMutex
	tree   *btree.BTreeG[entry] // nil: the entries are in sorted
	sorted []entry
	arena  arena
	first  base.Seq    // least sequence number added; 0: none yet
	last   base.Seq    // greatest
	frozen atomic.Bool // set once, under mu
	packed atomic.Bool // set once, under mu

	// Written by the writer, with each part of a group.
	size atomic.Int64
	n    atomic.Int64
}

// New returns an empty memtable.
func New(opts Options) *Memtable {
	if opts.Size <= 0 {
		opts.Size = defaultSize
	}
	if opts.filterBits == 0 {
		opts.filterBits = defaultFilterBits
	}
	m := &Memtable{hasher: opts.Hasher, pool: opts.Pool, memory: &memory{}}
	m.memory.pins.Store(1)
	m.arena.mu, m.arena.piece, m.arena.first = &m.mu, m.piece, opts.Pool.firstChunk()
	m.tree = opts.Pool.tree(m.less())
	if opts.filterBits > 0 {
		m.filter = bloom.NewAtomicBlocked(int(min(opts.Size/bytesPerKey, 1<<27))+1, opts.filterBits)
	}
	return m
}

// MayContain reports whether key may be there. False is certain for every key
// whose EndWrite has returned.
func (m *Memtable) MayContain(key []byte) bool {
	return m.filter == nil || m.filter.MayContain(m.hasher.Hash(key))
}

// MayContainHash is MayContain for a caller that has hashed the key already, with
// Options.Hasher: a lookup asks many filters with one hash.
func (m *Memtable) MayContainHash(hash uint64) bool {
	return m.filter == nil || m.filter.MayContain(hash)
}

// Get returns the newest version of key with a sequence number of at most
// seq: its value, its kind and its number. The value must not be changed. It
// is empty for a tombstone, which is found like any other version.
func (m *Memtable) Get(key []byte, seq base.Seq) (value []byte, kind base.Kind, found bool, s base.Seq) {
	locked := m.rlock()
	pivot := m.pivots.pivot(key, base.NewTrailer(seq, base.KindMax))
	var e entry
	m.ascend(pivot, func(next entry) bool {
		e, found = next, true
		return false
	})
	found = found && m.sameKey(e, pivot)
	if found {
		value, kind, s = e.value(m.arena.chunks), e.trailer.Kind(), e.trailer.Seq()
	}
	m.pivots.release(pivot)
	m.runlock(locked)
	return value, kind, found, s
}

// sameKey tells whether two entries are versions of one user key.
func (m *Memtable) sameKey(a, b entry) bool {
	if a.hi != b.hi || a.lo != b.lo || a.keyLen() != b.keyLen() {
		return false
	}
	return a.keyLen() <= base.PrefixLen || string(m.keyOf(a)) == string(m.keyOf(b))
}

// rlock takes the lock for reading unless the memtable is packed, and returns
// whether it did, for runlock.
func (m *Memtable) rlock() bool {
	if m.packed.Load() {
		return false
	}
	m.mu.RLock()
	return true
}

func (m *Memtable) runlock(locked bool) {
	if locked {
		m.mu.RUnlock()
	}
}

// Freeze ends writing for good.
func (m *Memtable) Freeze() {
	m.mu.Lock()
	m.frozen.Store(true)
	m.mu.Unlock()
}

// Size returns the bytes of memory that the entries in the tree take. The filter, whose size is fixed, is not in it.
func (m *Memtable) Size() int64 { return m.size.Load() }

// Taken returns what the process takes for the entries in the tree:
// more than Size, since the collector lets garbage pile up to the size of what is
// live, and the tree is.
func (m *Memtable) Taken() int64 { return m.size.Load() + m.n.Load()*pileBytes }

// FilterSize returns the bytes of memory that the filter takes.
func (m *Memtable) FilterSize() int64 {
	if m.filter == nil {
		return 0
	}
	return int64(m.filter.SizeBytes())
}

// Len returns the number of entries in the tree.
func (m *Memtable) Len() int { return int(m.n.Load()) }

// Empty tells whether there are no entries.
func (m *Memtable) Empty() bool { return m.n.Load() == 0 }

// firstSeq returns the least sequence number there is, 0 if there is none.
func (m *Memtable) firstSeq() base.Seq {
	defer m.runlock(m.rlock())
	return m.first
}

// LastSeq returns the greatest sequence number there is, 0 if there is none.
func (m *Memtable) LastSeq() base.Seq {
	defer m.runlock(m.rlock())
	return m.last
}

// String says what m holds, for logs and tests.
func (m *Memtable) String() string {
	return fmt.Sprintf("memtable of %d entries, %d bytes, sequence numbers %d to %d",
		m.Len(), m.Size(), m.firstSeq(), m.LastSeq())
}

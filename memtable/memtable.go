// Package memtable stores the newest writes of a store in memory, in the order of internal
// keys. A memtable is a B-tree of small entries, an arena with the bytes of keys and values,
// and a Bloom filter. When it takes no more writes, the tree becomes a sorted array. The
// package is public so that others can read it. The compatibility promise of package shale
// does not cover its API.
//
// What it guarantees:
//
//  1. MayContain never says no to a key that Get or an iterator would find: a key is in the
//     filter before it is in the tree. The memtable itself hashes the keys for its filter. So
//     it can't be filled with one hash function and asked with another.
//  2. Slices that it returns stay valid and unchanged while the memtable is pinned: the arena
//     only grows, and its chunks never move. A reader pins the memtable (Pin, Unpin). The pin
//     of the owner exists from the beginning and ends with Release. After the last Unpin the
//     memory, most of which is off the Go heap, goes back to the Pool.
//  3. Add, Get, MayContain and a step of an iterator allocate nothing, except for nodes of
//     the tree, chunks of the arena and an iterator's first buffers.
//
// Concurrency. There is one writer, which adds entries in groups (BeginWrite, Add, Add, ...,
// EndWrite), and any number of readers. The writer copies keys and values without the lock,
// and takes the lock for at most stageSize entries at a time. So a reader waits for at most
// some 50 microseconds, however large a group is. Readers take the lock for one descent of
// the tree at a time, and take none after Pack. An iterator that is not being moved holds no
// lock. MayContain never takes it. Readers can see a part of a group: the sequence number
// that they bring must hide it.
//
// It leaves out some things: it never deletes (a tombstone is an entry), and writes no files.
// Range deletes are a set next to the entries (Spans), and Get and iterators do not apply them.
//
// Example: the put of "apple" = "red" with sequence number 7 takes twelve bytes of the arena,
// here the first ones, and the entry on the right.
//
//	61 70 70 6c 65  03 00 00 00  72 65 64      hi      0x6170706c65000000
//	a  p  p  l  e   3            r  e  d       lo      0
//	                                           trailer 7<<8 | 1
//	                                           ref     0<<16 | 5
package memtable

import (
	"fmt"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// Options say how large a memtable will be and where its memory comes from. The zero value is
// good.
type Options struct {
	// Size is the number of bytes after which the owner will flush the memtable. The filter
	// is made for it. With more entries than expected, the filter answers maybe more often,
	// and nothing else changes. Default 32 MiB.
	Size int64
	// filterBits is the number of bits of the filter for each expected key. Default 10, which
	// takes about 1 % of Size. Negative: there is no filter.
	filterBits float64
	// Hasher is the hash function of the filter. The zero value is murmur3.
	Hasher bloom.Hasher
	// Pool is where memory comes from and returns to. nil: the memory of each memtable is
	// freed when it is released.
	Pool *Pool
}

const (
	defaultSize       = 32 << 20
	defaultFilterBits = 10

	// bytesPerKey is the number of bytes that a key, its value and its entry take together,
	// as the filter expects it. With smaller ones the filter gives more false positives.
	bytesPerKey = 128
)

// A Memtable is an ordered set of entries that grows until it is frozen.
type Memtable struct {
	// filter is made by the first Add: a store that is opened and read has none, whose memory the system would have to
	// give out. nil: there are no keys, or no filter if filterBits is negative.
	filter     atomic.Pointer[bloom.AtomicBlocked]
	filterBits float64 // constant, as hasher and filterKeys
	hasher     bloom.Hasher
	filterKeys uint64 // that the filter is made for
	pool       *Pool
	memory     *memory                   // the pins, and the memory that is freed after the last one
	spans      atomic.Pointer[spans.Set] // range deletes; nil: none. The writer stores it under mu
	_          [64]byte                  // every lookup reads what is above; searches and the writer write what follows
	pivots     pivotSlots                // safe for concurrent use
	_          [64]byte                  // readers write pivots at the same time as they wait for mu

	// staged has the entries of a group that are not in the tree yet. Only the writer uses
	// it.
	staged []entry

	// Guarded by mu, but the writer reads arena without it. Constant once frozen is set,
	// except for tree and sorted. These are constant once packed is set.
	mu     lock
	tree   *btree.BTreeG[entry] // nil: Pack has moved the entries to sorted
	sorted []entry
	arena  arena
	first  base.Seq    // smallest sequence number, of entries and range deletes; 0: there is none
	last   base.Seq    // largest sequence number of both
	frozen atomic.Bool // set once, under mu
	packed atomic.Bool // set once, under mu

	// Atomic. The writer stores both with each part of a group.
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
	m := &Memtable{
		hasher: opts.Hasher, filterBits: opts.filterBits, filterKeys: uint64(min(opts.Size/bytesPerKey, 1<<27)) + 1,
		pool: opts.Pool, memory: &memory{},
	}
	m.memory.pins.n.Store(1)
	m.arena.mu, m.arena.piece, m.arena.first = &m.mu, m.piece, opts.Pool.firstChunk()
	m.tree = opts.Pool.tree(m.less())
	return m
}

// newFilter makes the filter.
func (m *Memtable) newFilter() *bloom.AtomicBlocked {
	f := bloom.Must(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{
		Keys: m.filterKeys, BitsPerKey: m.filterBits, Hasher: m.hasher, Uncounted: true,
	}))
	m.filter.Store(f)
	return f
}

// MayContain reports whether key may be in m. False is certain for every key whose EndWrite
// has returned.
func (m *Memtable) MayContain(key []byte) bool { return m.MayContainHash(m.hasher.Hash(key)) }

// MayContainHash is MayContain for a caller that has the hash of the key by Options.Hasher. A
// lookup asks many filters with one hash.
func (m *Memtable) MayContainHash(hash uint64) bool {
	if f := m.filter.Load(); f != nil {
		return f.MayContainHash(hash)
	}
	return m.filterBits < 0
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the rest of
// out becomes true.
func (m *Memtable) MayContainMany(hashes []uint64, out []bool) {
	if f := m.filter.Load(); f != nil {
		f.MayContainMany(hashes, out)
		return
	}
	for i := range out {
		out[i] = i >= len(hashes) || m.filterBits < 0
	}
}

// Get returns the newest version of key with a sequence number of at most seq: its value, its
// kind and its number s. A tombstone is found like any other version, and its value is empty.
// The value is a part of the arena, and must not be changed. Requires: m is pinned as long as
// the value is used.
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

// sameKey reports whether two entries are versions of one user key.
func (m *Memtable) sameKey(a, b entry) bool {
	if a.hi != b.hi || a.lo != b.lo || a.keyLen() != b.keyLen() {
		return false
	}
	return a.keyLen() <= base.PrefixLen || string(m.keyOf(a)) == string(m.keyOf(b))
}

// rlock takes the lock for reading, unless the memtable is packed. It returns whether it did,
// as the argument of runlock.
func (m *Memtable) rlock() bool {
	if m.packed.Load() {
		return false
	}
	m.mu.RLock()
	return true
}

// runlock releases the lock if rlock has taken it.
func (m *Memtable) runlock(locked bool) {
	if locked {
		m.mu.RUnlock()
	}
}

// Freeze ends writing. Later writes panic.
func (m *Memtable) Freeze() {
	m.mu.Lock()
	m.frozen.Store(true)
	m.mu.Unlock()
}

// Frozen reports whether Freeze was called.
func (m *Memtable) Frozen() bool { return m.frozen.Load() }

// Size returns the bytes of memory that the entries in the tree take. The filter, whose size
// does not depend on them, is not included.
func (m *Memtable) Size() int64 { return m.size.Load() }

// Taken returns the bytes of memory that the process needs for the entries in the tree. This
// is more than Size: the collector lets garbage grow in proportion to what is live, and the
// tree is live.
func (m *Memtable) Taken() int64 { return m.size.Load() + m.n.Load()*pileBytes }

// FilterSize returns the bytes of memory that the filter takes.
func (m *Memtable) FilterSize() int64 {
	if f := m.filter.Load(); f != nil {
		return int64(f.SizeBytes())
	}
	return 0
}

// Len returns the number of entries in the tree.
func (m *Memtable) Len() int { return int(m.n.Load()) }

// Empty reports whether there are no entries in the tree, and no range deletes.
func (m *Memtable) Empty() bool { return m.n.Load() == 0 && m.spans.Load() == nil }

// Spans returns the range deletes. A set never loses any, since a reader at an older number may need them.
func (m *Memtable) Spans() *spans.Set { return m.spans.Load() }

// firstSeq returns the smallest sequence number, or 0 if the memtable is empty.
func (m *Memtable) firstSeq() base.Seq {
	defer m.runlock(m.rlock())
	return m.first
}

// LastSeq returns the largest sequence number, or 0 if the memtable is empty.
func (m *Memtable) LastSeq() base.Seq {
	defer m.runlock(m.rlock())
	return m.last
}

// String describes m for logs and tests.
func (m *Memtable) String() string {
	return fmt.Sprintf("memtable of %d entries, %d bytes, sequence numbers %d to %d",
		m.Len(), m.Size(), m.firstSeq(), m.LastSeq())
}

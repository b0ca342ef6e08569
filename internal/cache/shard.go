package cache

import (
	"sync"
	"sync/atomic"
)

// A shard is a cache of its own for the keys that fall to it.
type shard struct {
	// Read by lookups, written under mu.
	table atomic.Pointer[table] // nil until the first insert
	moves atomic.Uint64         // odd while a block is taken out of the table, never the same again

	// Changed by whoever frees a block.
	heldBytes  atomic.Int64 // in the cache, or evicted and still pinned
	heldBlocks atomic.Int64

	capacity int64 // constant

	mu    sync.Mutex
	used  int64 // charges of the blocks in the cache, at most capacity
	order sieve
	files map[uint64]*Block // the first of each file's blocks

	_ [64]byte // keeps the next shard's lock off this one's lines
}

// get returns the block at k, pinned, or nil.
func (s *shard) get(h uint64, k Key) *Block {
	t := s.table.Load()
	if t == nil {
		return nil
	}
	moves := s.moves.Load()
	b := t.get(h, k)
	if b != nil || (moves&1 == 0 && s.moves.Load() == moves) {
		return b
	}
	s.mu.Lock() // blocks may have moved under our eyes
	defer s.mu.Unlock()
	return s.table.Load().get(h, k)
}

// insert is Cache.Insert.
func (s *shard) insert(h uint64, k Key, b *Block) *Block {
	charge := b.charge()
	if charge > s.capacity/2 { // would sweep out too much
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.roomyTable()
	if other := t.get(h, k); other != nil {
		b.Release()
		return other
	}
	for s.used+charge > s.capacity {
		s.evict(s.order.victim())
	}
	b.key, b.shard = k, s
	b.visited.Store(0)
	b.refs.Add(1)
	b.published.Store(true)
	s.heldBytes.Add(charge)
	s.heldBlocks.Add(1)
	s.used += charge
	s.order.add(b)
	s.link(b)
	t.put(h, b)
	return b
}

// roomyTable returns the table, with place for one more block. Lookups under
// way go on in the old one, which nobody changes any more: what it lacks was
// not there when they began.
// Requires: s.mu is held.
func (s *shard) roomyTable() *table {
	t := s.table.Load()
	if t == nil {
		t = newTable(s, minSlots)
		s.files = make(map[uint64]*Block)
		s.table.Store(t)
	} else if t.crowded() {
		t = t.grown()
		s.table.Store(t)
	}
	return t
}

// evict takes b out of the cache. Requires: s.mu is held; b is in the cache.
func (s *shard) evict(b *Block) {
	s.moves.Add(1)
	s.table.Load().remove(b.key.hash(), b)
	s.moves.Add(1)
	s.order.remove(b)
	s.unlink(b)
	s.used -= b.charge()
	b.Release()
}

// evictFile is Cache.EvictFile.
func (s *shard) evictFile(file uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := s.files[file]; b != nil; b = s.files[file] {
		s.evict(b)
	}
}

// link puts b in front of its file's blocks. Requires: s.mu is held.
func (s *shard) link(b *Block) {
	first := s.files[b.key.File]
	b.filePrev, b.fileNext = nil, first
	if first != nil {
		first.filePrev = b
	}
	s.files[b.key.File] = b
}

// unlink undoes link. Requires: s.mu is held.
func (s *shard) unlink(b *Block) {
	if b.fileNext != nil {
		b.fileNext.filePrev = b.filePrev
	}
	switch {
	case b.filePrev != nil:
		b.filePrev.fileNext = b.fileNext
	case b.fileNext != nil:
		s.files[b.key.File] = b.fileNext
	default:
		delete(s.files, b.key.File)
	}
	b.filePrev, b.fileNext = nil, nil
}

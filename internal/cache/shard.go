package cache

import (
	"sync"
	"sync/atomic"
)

// A shard is a cache for the keys whose hash chooses
// it. Shards share nothing but the list of mappings.
type shard struct {
	// Read by lookups, written under mu.
	table atomic.Pointer[table] // nil until the first insert
	moves atomic.Uint64         // odd while a block is taken out of the table; it only grows

	// Changed by any goroutine that frees a block.
	heldLoose  atomic.Int64 // bytes of loose blocks in the cache, or evicted and still pinned
	heldBlocks atomic.Int64 // blocks in the cache, or evicted and still pinned
	heldChunks atomic.Int64 // arena.taken

	capacity int64     // constant
	looseMax int64     // limit of loose in bytes; constant
	mapped   *mappings // constant

	mu     sync.Mutex // protects the following fields
	closed bool
	loose  int64 // bytes of the loose blocks in the cache
	blocks int64 // number of blocks in the cache
	order  sieve
	files  map[uint64]*Block // by file number: the first of the file's blocks
	arena  arena
	door   door
	wanted int64  // while allocMapped makes room: how many bytes it needs; else 0
	caught []byte // the memory of a block that was evicted meanwhile, at most a quarter more

	_ [64]byte // keeps the next shard's fields out of the last cache line of this one
}

// get returns the block at k, pinned, or nil. It takes no lock if it
// finds the block, or if no block was moved in the table while it looked.
func (s *shard) get(h uint64, k Key) *Block {
	t := s.table.Load()
	if t == nil {
		return nil
	}
	moves := s.moves.Load()
	b := t.get(h, k)
	if b != nil || !s.door.used.Load() && moves&1 == 0 && s.moves.Load() == moves {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.door.find(k); b != nil {
		return b
	}
	return s.table.Load().get(h, k) // a removal may have moved slots meanwhile, and the block was one of them
}

// insert is Insert for the shard of the key.
func (s *shard) insert(h uint64, k Key, b *Block) *Block {
	if other := s.tryInsert(h, k, b); other != nil {
		b.Release()
		return other
	}
	return b
}

// tryInsert puts b into the cache if it can be kept. If the
// cache has a block at k already, it returns that one, pinned.
func (s *shard) tryInsert(h uint64, k Key, b *Block) (other *Block) {
	if b.charge() > s.capacity/2 { // would evict too much
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if b.passing {
		s.pass(k, b)
		return nil
	}
	t := s.roomyTable()
	if other := t.get(h, k); other != nil {
		return other
	}
	if !s.makeRoom(b.charge()) {
		return nil
	}
	b.key, b.shard = k, s
	b.refs.Add(1)
	b.published.Store(true)
	b.kept = true
	if b.chunk == nil {
		s.loose += int64(cap(b.buf))
		s.heldLoose.Add(int64(cap(b.buf)))
	}
	s.blocks++
	s.heldBlocks.Add(1)
	s.order.add(b)
	s.link(b)
	t.put(h, b)
	return nil
}

// roomyTable returns the table, with room for one more block. If it
// replaces the table by a larger one, lookups in progress continue in the
// old table, which nobody changes any more. Blocks that it lacks were not
// in the cache when these lookups began. Requires: s.mu is held.
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

// evict takes b out of the cache. It returns the piece that holds b's memory
// afterwards: b itself if b is pinned or loose, otherwise the hole that b
// has become a part of. Requires: s.mu is held, and b is in the cache.
func (s *shard) evict(b *Block) *Block {
	s.moves.Add(1)
	s.table.Load().remove(b.key.hash(), b)
	s.moves.Add(1)
	s.order.remove(b)
	s.unlink(b)
	b.kept = false
	s.blocks--
	if b.chunk == nil {
		s.loose -= int64(cap(b.buf))
	}
	if n := b.refs.Add(-1); n > 0 || !b.unpinned(n) {
		return b
	}
	if b.chunk != nil {
		return s.freePiece(b)
	}
	if n := int64(cap(b.buf)); b.class == mappedClass && s.caught == nil && n >= s.wanted && n-s.wanted <= s.wanted/4 {
		b.leave()
		s.caught = b.buf[:n]
		return b
	}
	b.freeLoose()
	return b
}

// evictFile is EvictFile for one shard.
func (s *shard) evictFile(file uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := s.files[file]; b != nil; b = s.files[file] {
		s.evict(b)
	}
	s.door.forget(func(b *Block) bool { return b.key.File == file })
	s.trim()
}

// close evicts all blocks. The shard keeps no block after that.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.order.oldest != nil {
		s.evict(s.order.oldest)
	}
	s.door.forget(func(*Block) bool { return true })
	s.trim()
}

// link makes b the first block of its file's list. Requires: s.mu is held.
func (s *shard) link(b *Block) {
	first := s.files[b.key.File]
	b.filePrev, b.fileNext = nil, first
	if first != nil {
		first.filePrev = b
	}
	s.files[b.key.File] = b
}

// unlink takes b out of its file's list. Requires: s.mu is held.
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

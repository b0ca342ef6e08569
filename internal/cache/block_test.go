package cache

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A reader that comes too late must not take another cache's block for the one
// it wanted: stores share the pools, and their tables have the same numbers.
func TestBlock_LateReaderOfAnotherCache(t *testing.T) {
	a, b := New(1<<20), New(1<<20)
	k := Key{File: 5, Offset: 0}
	add(a, k, 4096)
	add(b, k, 4096)
	late := b.Get(k) // what a reader of a finds in its hands when the block was used again by b
	defer late.Release()
	before := late.refs.Load()
	if late.pin(a.shard(k.hash()), k) {
		t.Error("a reader of one cache pinned a block of another")
		late.Release()
	}
	if n := late.refs.Load(); n != before {
		t.Errorf("%d pins after a reader in vain, %d before", n, before)
	}
}

// Late readers add and remove pins of free blocks and of blocks that are being
// filled. The count of pins and the next life of the block must not suffer.
func TestBlock_LateReaders(t *testing.T) {
	s := &New(1 << 20).shards[0]
	k := Key{File: 1, Offset: 1}
	for _, c := range []struct {
		name    string
		block   func() *Block
		release int // pins to take off afterwards
	}{
		{"free", func() *Block { b := newBlock(noClass, 64); b.Release(); return b }, 0},
		{"being filled", func() *Block { return newBlock(noClass, 64) }, 1},
		{"being freed", func() *Block { return blockAt(s, k, freed, true) }, 0},
		{"not yet published", func() *Block { return blockAt(s, k, 1, false) }, 0},
		{"of another key", func() *Block { return s.insert(1, Key{2, 2}, newBlock(noClass, 64)) }, 1},
	} {
		b := c.block()
		before := b.refs.Load()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 10000 {
					if b.pin(s, k) {
						t.Errorf("%s: pinned", c.name)
						return
					}
				}
			})
		}
		wg.Wait()
		if got := b.refs.Load(); got != before {
			t.Errorf("%s: refs = %d after late readers, %d before", c.name, got, before)
		}
		for range c.release {
			b.Release()
		}
	}
}

// blockAt returns a block in the given state.
func blockAt(s *shard, k Key, refs int32, published bool) *Block {
	b := &Block{class: noClass, key: k, shard: s}
	b.refs.Store(refs)
	b.published.Store(published)
	return b
}

// The last pin may be a late reader's, or taken and released while another is
// about to free the block: exactly one of them must free it.
func TestBlock_FreedOnce(t *testing.T) {
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	s := &New(1 << 20).shards[0]
	for range rounds {
		b := newBlock(noClass, 64)
		var start atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for !start.Load() {
				runtime.Gosched()
			}
			b.pin(s, Key{1, 1})
		})
		start.Store(true)
		b.Release()
		wg.Wait()
		if n := b.refs.Load(); n != freed {
			t.Fatalf("refs = %d after the last pin, want %d", n, freed)
		}
	}
}

package memtable

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/shaledb/shale/internal/offheap"
)

// A Pool keeps the memory of memtables that are done with for the next ones of
// the same store: chunks of arenas, which lie beside the Go heap, and nodes of
// trees. It keeps no more than one memtable needs. A nil Pool keeps nothing.
type Pool struct{ *pooled }

// pooled is what a Pool has, apart from it for the cleanup of a Pool that is
// dropped without Close.
type pooled struct {
	mu     sync.Mutex
	chunks [][]byte // of chunkSize, off the heap
	limit  int      // of chunks
	large  bool     // there was a memtable that needed chunks
	closed bool

	nodes *btree.FreeListG[entry] // made for the second memtable: many stores never have one
	lists int                     // memtables that asked for nodes
	size  int64
}

// NewPool returns a pool for memtables of the given Options.Size.
func NewPool(size int64) *Pool {
	if size <= 0 {
		size = defaultSize
	}
	return &Pool{&pooled{limit: int(size >> chunkShift), size: size}}
}

// firstChunk returns the size of a memtable's first chunk. Where one has needed
// large ones the next will, and need not begin on the heap.
func (p *Pool) firstChunk() int {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.large {
			return chunkSize
		}
	}
	return firstChunk
}

// chunk returns chunkSize bytes, of any contents.
func (p *Pool) chunk() []byte {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.large = true
		if n := len(p.chunks); n > 0 {
			c := p.chunks[n-1]
			p.chunks = p.chunks[:n-1]
			return c
		}
	}
	return offheap.Alloc(chunkSize)
}

// put takes back the pieces of a memtable, and keeps of the chunks what it may.
func (p *Pool) put(pieces [][]byte) {
	if p == nil {
		freeAll(pieces)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range pieces {
		if len(c) != chunkSize || p.closed || len(p.chunks) >= p.limit {
			offheap.Free(c)
			continue
		}
		if poison {
			for i := range c {
				c[i] = 0xdb
			}
		}
		if p.chunks == nil {
			p.chunks = make([][]byte, 0, p.limit)
			runtime.AddCleanup(p, (*pooled).free, p.pooled)
		}
		p.chunks = append(p.chunks, c)
	}
}

// Close frees what the pool holds. What comes back later is freed at once.
func (p *Pool) Close() { p.free() }

func (p *pooled) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	freeAll(p.chunks)
	p.chunks, p.closed = nil, true
}

func freeAll(pieces [][]byte) {
	for _, c := range pieces {
		offheap.Free(c)
	}
}

// tree returns an empty tree, whose nodes go back to the pool if it is not the
// first one.
func (p *Pool) tree(less btree.LessFunc[entry]) *btree.BTreeG[entry] {
	if p == nil {
		return btree.NewG(degree, less)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists++; p.lists == 1 {
		return btree.NewG(degree, less)
	}
	if p.nodes == nil {
		// All nodes but the root have degree-1 entries or more.
		p.nodes = btree.NewFreeListG[entry](int(p.size/(entryBytes*(degree-1))) + 1)
	}
	return btree.NewWithFreeListG(degree, less, p.nodes)
}

// memory is what a memtable has beside the heap, and who uses it.
type memory struct {
	// pins counts the owner, until Release, and those who read. It is far below
	// zero once the memory is gone.
	pins atomic.Int64
	// pieces are from package offheap. Added to by the writer.
	pieces [][]byte
}

const gone = -1 << 40

// drop frees the memory of a memtable that nobody can reach any more, of a store
// that was dropped without Close. If a reader was dropped too, without having
// let go, slices may still be in use somewhere: then it stays.
func (o *memory) drop() {
	if o.pins.Load() <= 1 {
		freeAll(o.pieces)
		o.pieces = nil
	}
}

// Pin keeps the memory of m until Unpin. False: it is gone, and what it held is
// in tables. Get and iterators need it held, and so do the slices that they give.
func (m *Memtable) Pin() bool { return m.memory.pins.Add(1) > 0 }

// Unpin lets go of what Pin held. m must not be used any more but for its filter
// and its counts.
func (m *Memtable) Unpin() {
	pins := &m.memory.pins
	if pins.Add(-1) == 0 && pins.CompareAndSwap(0, gone) {
		m.free()
	}
}

// Release is the owner's Unpin, once: nothing but readers needs m any more, and
// nobody writes to it.
func (m *Memtable) Release() { m.Unpin() }

// free gives the memory back. Requires: nobody reads or writes m.
func (m *Memtable) free() {
	m.mu.Lock()
	m.frozen.Store(true)
	if m.tree != nil {
		m.tree.Clear(true)
	}
	m.sorted = nil
	m.arena.chunks, m.arena.free = nil, nil
	pieces := m.memory.pieces
	m.memory.pieces = nil
	m.mu.Unlock()
	m.pool.put(pieces)
}

// piece returns n bytes beside the heap for the arena.
func (m *Memtable) piece(n int) []byte {
	if m.memory.pieces == nil {
		runtime.AddCleanup(m, (*memory).drop, m.memory)
	}
	var c []byte
	if n == chunkSize {
		c = m.pool.chunk()
	} else {
		c = offheap.Alloc(n)
	}
	m.memory.pieces = append(slices.Grow(m.memory.pieces, 1), c)
	return c
}

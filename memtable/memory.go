package memtable

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/google/btree"

	"github.com/shaledb/shale/internal/offheap"
)

// A Pool keeps the memory of released memtables for the next ones of the same store: the
// chunks of their arenas, which are off the Go heap, and the nodes of their trees. It keeps
// at most as much as one memtable needs. A nil Pool keeps nothing.
type Pool struct{ *pooled }

// A pooled is the content of a Pool. It is a type of its own because the cleanup of a Pool
// that is dropped without Close must not refer to the Pool. mu guards all fields that change.
type pooled struct {
	mu     sync.Mutex
	chunks [][]byte // free chunks of chunkSize bytes, off the heap
	limit  int      // the largest number of chunks that are kept
	large  bool     // some memtable has needed chunks
	closed bool

	nodes *btree.FreeListG[entry] // made for the second memtable, because many stores never have one
	lists int                     // number of memtables that have got a tree
	size  int64
}

// NewPool returns a pool for memtables of size bytes: their Options.Size.
func NewPool(size int64) *Pool {
	if size <= 0 {
		size = defaultSize
	}
	return &Pool{&pooled{limit: int(size >> chunkShift), size: size}}
}

// firstChunk returns the size of a memtable's first chunk in bytes. If one memtable has
// needed large chunks, the next one probably will. So it need not begin on the heap.
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

// chunk returns chunkSize bytes with any content.
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
	c := offheap.Alloc(chunkSize)
	offheap.Huge(c) // one fault a chunk instead of one for each page of 30 entries
	return c
}

// put takes back the memory of a memtable. It keeps as many of the chunks as it may, and
// frees the rest. Requires: nothing refers to the memory any more.
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
			offheap.Unreachable(unsafe.Pointer(p), p.pooled.free)
		}
		p.chunks = append(p.chunks, c)
	}
}

// Close frees the memory in the pool. Memory that is put back later is freed at once.
func (p *Pool) Close() { p.free() }

// free frees all chunks and closes the pool.
func (p *pooled) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	freeAll(p.chunks)
	p.chunks, p.closed = nil, true
}

// freeAll frees the given pieces.
func freeAll(pieces [][]byte) {
	for _, c := range pieces {
		offheap.Free(c)
	}
}

// tree returns an empty tree. The nodes of every tree but the first are taken from the pool,
// and go back to it.
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

// A memory is what a memtable has off the Go heap, and the count of those that use it.
type memory struct {
	pins Pins
	// shared counts readers that have pinned m together with the rest of what they read: see
	// PinnedBy. nil: there is no such count.
	shared *Pins
	// pieces are from package offheap. The writer adds to them, and Pack does after Freeze.
	pieces [][]byte
}

// drop frees the memory of a memtable that can't be reached any more, because its store was
// dropped without Close. A reader may have been dropped too, without Unpin. Then slices may
// still be in use, and the memory is never freed.
func (o *memory) drop() {
	if o.pins.Alone() && (o.shared == nil || o.shared.Alone()) {
		freeAll(o.pieces)
		o.pieces = nil
	}
}

// Pin keeps the memory of m until Unpin. It returns false if the memory was freed; then the
// entries are in tables. Get and iterators may only be used while m is pinned, and so may the
// slices that they return.
func (m *Memtable) Pin() bool { return m.memory.pins.Pin() }

// Unpin ends a Pin. The last one frees the memory. The caller may then use only the filter
// and the counts of m.
func (m *Memtable) Unpin() {
	if m.memory.pins.Unpin() {
		m.free()
	}
}

// PinnedBy says that readers hold m by a pin of p instead of m's own, until the next PinnedBy.
// The owner has to keep m pinned as long as p is. p only matters if all of them are dropped
// without a word: then m notices that slices of it may still be in use. Calls come one at a time.
func (m *Memtable) PinnedBy(p *Pins) { m.memory.shared = p }

// Release ends the owner's pin. It is called once, when only readers need m any more and
// nobody writes to it.
func (m *Memtable) Release() { m.Unpin() }

// free gives the memory of m back. Requires: nobody reads or writes m.
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

// piece returns n bytes off the Go heap that belong to m.
func (m *Memtable) piece(n int) []byte {
	if m.memory.pieces == nil {
		offheap.Unreachable(unsafe.Pointer(m), m.memory.drop)
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

package memtable

import (
	"sync"
	"unsafe"

	"github.com/google/btree"

	"github.com/shaledb/shale/internal/offheap"
)

// A Pool keeps the memory of released memtables for the next ones of the same store: the
// pieces of their arenas, which are off the Go heap, and the nodes of their trees. It keeps
// at most as much as one memtable needs. A nil Pool keeps nothing.
//
// Memory that nobody has touched costs the system a fault for each page, which takes longer
// than to copy an entry of a page into it.
type Pool struct{ *pooled }

// A pooled is the content of a Pool. It is a type of its own because the cleanup of a Pool
// that is dropped without Close must not refer to the Pool. mu guards all fields that change.
type pooled struct {
	mu     sync.Mutex
	pieces [][]byte // free ones, off the heap, in the order in which they came; most are chunks of chunkSize bytes
	kept   int64    // bytes of them
	limit  int64    // of kept; 0: the pool is closed
	large  bool     // some memtable has needed chunks

	nodes *btree.FreeListG[entry] // made for the second memtable, because many stores never have one
	lists int                     // number of memtables that have got a tree
	size  int64
}

// NewPool returns a pool for memtables of size bytes: their Options.Size.
func NewPool(size int64) *Pool {
	if size <= 0 {
		size = defaultSize
	}
	return &Pool{&pooled{limit: size, size: size}}
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

// take returns a piece of n bytes with any content, or up to a quarter more.
func (p *Pool) take(n int) []byte {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.large = p.large || n == chunkSize
		for i := len(p.pieces) - 1; i >= 0; i-- {
			c := p.pieces[i]
			if more := len(c) - n; more >= 0 && more <= n/4 {
				copy(p.pieces[i:], p.pieces[i+1:])
				p.pieces = p.pieces[:len(p.pieces)-1]
				p.kept -= int64(len(c))
				return c
			}
		}
	}
	c := offheap.Alloc(n)
	offheap.Huge(c) // one fault a chunk instead of one for each page of 30 entries
	return c
}

// put takes back the memory of a memtable. If that is more than the pool may keep, the pieces go that came
// first: entries may have another size now. Requires: nothing refers to the memory any more.
func (p *Pool) put(pieces [][]byte) {
	if p == nil {
		freeAll(pieces)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pieces == nil && len(pieces) > 0 {
		offheap.Unreachable(unsafe.Pointer(p), p.pooled.free)
	}
	for _, c := range pieces {
		if poison {
			for i := range c {
				c[i] = 0xdb
			}
		}
		p.kept += int64(len(c))
	}
	p.pieces = append(p.pieces, pieces...)
	gone := 0
	for ; p.kept > p.limit; gone++ {
		p.kept -= int64(len(p.pieces[gone]))
	}
	freeAll(p.pieces[:gone])
	p.pieces = p.pieces[gone:]
}

// Close frees the memory in the pool. Memory that is put back later is freed at once.
func (p *Pool) Close() { p.free() }

// free frees all pieces and closes the pool.
func (p *pooled) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	freeAll(p.pieces)
	p.pieces, p.kept, p.limit = nil, 0, 0
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

// piece returns n bytes off the Go heap, with any content, that belong to m.
func (m *Memtable) piece(n int) []byte {
	if m.memory.pieces == nil {
		offheap.Unreachable(unsafe.Pointer(m), m.memory.drop)
	}
	c := m.pool.take(n)
	m.memory.pieces = append(m.memory.pieces, c)
	return c[:n:n]
}

package memtable

import "unsafe"

// Pack moves the entries of a frozen memtable from the tree into one sorted
// array, which lies beside the heap if it is large. The nodes of the tree are
// the next memtable's then, so that a store which is being filled has one tree
// on the heap, and not one for each memtable. Reads take no lock from now on.
// One goroutine calls it; again is no harm.
//
// Requires: m is frozen, and pinned.
func (m *Memtable) Pack() {
	if m.packed.Load() {
		return
	}
	all := m.array(m.tree.Len()) // nobody writes: reading the tree needs no lock
	m.tree.Ascend(func(e entry) bool {
		all = append(all, e)
		return true
	})
	m.mu.Lock() // who reads the tree has left it
	tree := m.tree
	m.tree, m.sorted = nil, all
	m.packed.Store(true)
	m.mu.Unlock()
	tree.Clear(true)
}

// array returns room for n entries.
func (m *Memtable) array(n int) []entry {
	size := n * int(unsafe.Sizeof(entry{}))
	if size <= chunkSize/2 {
		return make([]entry, 0, n)
	}
	// Entries have no pointers, so the collector need not know of them.
	return unsafe.Slice((*entry)(unsafe.Pointer(unsafe.SliceData(m.piece(size)))), n)[:0]
}

// ascend calls fn for the entries at or after from in their order, as long as
// it returns true. Requires, for this and the following: rlock.
func (m *Memtable) ascend(from entry, fn func(entry) bool) {
	if m.tree != nil {
		m.tree.AscendGreaterOrEqual(from, fn)
		return
	}
	for _, e := range m.sorted[m.place(from):] {
		if !fn(e) {
			return
		}
	}
}

// descend calls fn for the entries at or before from, the last first.
func (m *Memtable) descend(from entry, fn func(entry) bool) {
	if m.tree != nil {
		m.tree.DescendLessOrEqual(from, fn)
		return
	}
	i := m.place(from)
	if i < len(m.sorted) && !m.isLess(from, m.sorted[i]) {
		i++
	}
	for i--; i >= 0 && fn(m.sorted[i]); i-- {
	}
}

// ascendAll and descendAll do that from the ends.
func (m *Memtable) ascendAll(fn func(entry) bool) {
	if m.tree != nil {
		m.tree.Ascend(fn)
		return
	}
	for _, e := range m.sorted {
		if !fn(e) {
			return
		}
	}
}

func (m *Memtable) descendAll(fn func(entry) bool) {
	if m.tree != nil {
		m.tree.Descend(fn)
		return
	}
	for i := len(m.sorted) - 1; i >= 0 && fn(m.sorted[i]); i-- {
	}
}

// place returns the index of the first of the sorted entries that is not before e.
func (m *Memtable) place(e entry) int {
	lo, hi := 0, len(m.sorted)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if m.isLess(m.sorted[mid], e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

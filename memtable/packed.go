package memtable

import "unsafe"

// Pack moves the entries of a frozen memtable from the tree to one sorted array. The array is
// off the Go heap if it is large. Then the next memtable can use the nodes of the tree. So a
// store that is being filled has one tree on the heap, and not one for each memtable. After
// Pack, reads take no lock.
//
// Only one goroutine at a time may call Pack. A second call does nothing. Requires: m is
// frozen, and pinned.
func (m *Memtable) Pack() {
	if m.packed.Load() {
		return
	}
	all := m.array(m.tree.Len()) // nobody writes, so reading the tree needs no lock
	m.tree.Ascend(func(e entry) bool {
		all = append(all, e)
		return true
	})
	m.mu.Lock() // waits for the readers of the tree
	tree := m.tree
	m.tree, m.sorted = nil, all
	m.packed.Store(true)
	m.mu.Unlock()
	// No reader can be in the tree: those that come after the unlock find sorted.
	tree.Clear(true)
}

// array returns an empty slice with room for n entries.
func (m *Memtable) array(n int) []entry {
	size := n * int(unsafe.Sizeof(entry{}))
	if size <= chunkSize/2 {
		return make([]entry, 0, n)
	}
	// Entries have no pointers, so they may be where the collector does not look.
	return unsafe.Slice((*entry)(unsafe.Pointer(unsafe.SliceData(m.piece(size)))), n)[:0]
}

// ascend calls fn for the entries at or after from, in their order, until it returns false.
// Requires: the caller has called rlock. This also holds for the next three methods.
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

// descend calls fn for the entries at or before from, the last one first, until it returns
// false.
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

// ascendAll calls fn for all entries in their order, until it returns false.
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

// descendAll calls fn for all entries, the last one first, until it returns false.
func (m *Memtable) descendAll(fn func(entry) bool) {
	if m.tree != nil {
		m.tree.Descend(fn)
		return
	}
	for i := len(m.sorted) - 1; i >= 0 && fn(m.sorted[i]); i-- {
	}
}

// place returns the index in sorted of the first entry that is not before e.
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

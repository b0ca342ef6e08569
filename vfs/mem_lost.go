package vfs

import "slices"

// A lostSync is the disk under a file whose sync has failed. The system drops the pages
// that it could not write. But it still shows them to readers, marks them as clean, and
// lets the next sync succeed (ATC '20, "Can applications recover from fsync failures?").
// So what was written before the failure reaches the disk only if it is written again.
type lostSync struct {
	disk  content        // what the disk has
	dirty map[int64]bool // numbers of the sectors that were written since
}

// loseUnsynced does what a failed sync does: of the
// unsynced changes only the size becomes durable.
func (n *inode) loseUnsynced() {
	n.mu.Lock()
	defer n.mu.Unlock()
	disk := n.durable()
	disk.resize(n.data.size)
	n.lost = &lostSync{disk: disk, dirty: make(map[int64]bool)}
	n.undo = nil
}

// mark notes that the bytes from off to end differ from the disk. off may be above end.
func (l *lostSync) mark(off, end int64) {
	off, end = min(off, end), max(off, end)
	for s := off / sectorSize; s*sectorSize < end; s++ {
		l.dirty[s] = true
	}
}

// sectors returns the numbers of the dirty sectors, ascending.
func (l *lostSync) sectors() []int64 {
	all := make([]int64, 0, len(l.dirty))
	for s := range l.dirty {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// sync writes the dirty sectors of data to the disk,
// and reports whether there was anything to do.
func (l *lostSync) sync(data *content) bool {
	dirty := len(l.dirty) > 0 || l.disk.size != data.size
	for s := range l.dirty {
		l.disk.copyFrom(data, s*sectorSize, (s+1)*sectorSize)
	}
	clear(l.dirty)
	l.disk.resize(data.size)
	return dirty
}

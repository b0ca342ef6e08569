package vfs

import "maps"

// A memNode is what a name stands for: *inode or *memDir.
type memNode any

// A memDir is a directory. names has its names as everybody sees them, and durable
// those that the disk has for certain. Mem.pending has the changes between the two.
type memDir struct {
	names   map[string]memNode
	durable map[string]memNode
	removed bool // it has no name any more: no file can be created in it
}

// newMemDir returns an empty directory.
func newMemDir() *memDir {
	return &memDir{names: make(map[string]memNode), durable: make(map[string]memNode)}
}

// A place is a name in a directory, whether or not it exists.
type place struct {
	dir  *memDir
	name string
}

// A nameOp is a change of names that is not durable yet. The place set gets node, and
// the place del becomes empty. A rename has both, and a crash never separates them.
type nameOp struct {
	set, del place
	node     memNode
	seq      int64 // number of the change: see Mem.nameSeq
}

// in reports whether the change is about names in d.
func (op *nameOp) in(d *memDir) bool {
	return op.set.dir == d || op.del.dir == d
}

// apply makes the change in the maps that names returns for the directories.
func (op *nameOp) apply(names func(*memDir) map[string]memNode) {
	if op.del.dir != nil {
		delete(names(op.del.dir), op.del.name)
	}
	if op.set.dir != nil {
		names(op.set.dir)[op.set.name] = op.node
	}
}

// kept returns which of the changes survive. want says which of them should. With each
// of these, all earlier changes of the same names survive too, so that a name goes
// through its states in order. For example, if a file was created as a and renamed to
// b, and the rename survives, then so does the creation. It goes through the changes
// from the last to the first, and collects the names whose earlier changes are needed.
func kept(ops []nameOp, want func(i int) bool) []bool {
	keep := make([]bool, len(ops))
	needed := make(map[place]bool)
	for i := len(ops) - 1; i >= 0; i-- {
		op := &ops[i]
		if !want(i) && !needed[op.set] && !needed[op.del] {
			continue
		}
		keep[i] = true
		for _, p := range []place{op.set, op.del} {
			if p.dir != nil {
				needed[p] = true
			}
		}
	}
	return keep
}

// change makes a change of names. Everybody sees it at once,
// but it is not durable before syncNames. Requires: mu is held.
func (m *Mem) change(op nameOp) {
	op.apply(func(d *memDir) map[string]memNode { return d.names })
	op.seq = m.nameSeq.Add(1)
	m.pending = append(m.pending, op)
}

// syncNames makes the changes in d durable. Requires: mu is held.
func (m *Mem) syncNames(d *memDir) {
	keep := kept(m.pending, func(i int) bool { return m.pending[i].in(d) })
	rest := m.pending[:0]
	for i, op := range m.pending {
		if keep[i] {
			op.apply(func(d *memDir) map[string]memNode { return d.durable })
		} else {
			rest = append(rest, op)
		}
	}
	clear(m.pending[len(rest):]) // so that removed files can be freed
	m.pending = rest
}

// crashNames returns the names that directories have after a crash. It leaves
// out directories whose durable names are unchanged. Requires: cut is held.
func (m *Mem) crashNames(c CrashConfig) map[*memDir]map[string]memNode {
	after := make(map[*memDir]map[string]memNode)
	names := func(d *memDir) map[string]memNode {
		if after[d] == nil {
			after[d] = maps.Clone(d.durable)
		}
		return after[d]
	}
	keep := kept(m.pending, m.survives(c))
	for i := range m.pending {
		if keep[i] {
			m.pending[i].apply(names)
		}
	}
	return after
}

// survives returns the argument want for kept: which changes should survive by the config.
func (m *Mem) survives(c CrashConfig) func(i int) bool {
	var journaled int64
	if c.Journal {
		journaled = m.journaled.Load()
	}
	r := c.rand(0)
	prefix := r.IntN(len(m.pending) + 1)
	return func(i int) bool {
		if m.pending[i].seq <= journaled {
			return true
		}
		switch c.Names {
		case NamesKeep:
			return true
		case NamesPrefix:
			return i < prefix
		case NamesSubset:
			return r.IntN(2) == 0
		}
		return false
	}
}

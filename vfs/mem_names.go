package vfs

import "maps"

// A memNode is what a name leads to: *inode or *memDir.
type memNode any

// A memDir is a directory: its names as everyone sees them, and as the disk
// has them for certain. Mem.pending leads from the one to the other.
type memDir struct {
	names   map[string]memNode
	durable map[string]memNode
}

func newMemDir() *memDir {
	return &memDir{names: make(map[string]memNode), durable: make(map[string]memNode)}
}

// A place is a name in a directory.
type place struct {
	dir  *memDir
	name string
}

// A nameOp is a change of names that is not yet durable: node gets the name
// set, and the name del goes. A rename has both; they are never parted.
type nameOp struct {
	set, del place
	node     memNode
	seq      int64 // by order
}

func (op *nameOp) in(d *memDir) bool {
	return op.set.dir == d || op.del.dir == d
}

// apply makes the change in the maps that names returns.
func (op *nameOp) apply(names func(*memDir) map[string]memNode) {
	if op.del.dir != nil {
		delete(names(op.del.dir), op.del.name)
	}
	if op.set.dir != nil {
		names(op.set.dir)[op.set.name] = op.node
	}
}

// kept returns which of the changes happen if those happen that want says yes
// to: with each, the earlier ones of the same names. So a name goes through
// its states in order.
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

// change makes a change of names. The caller holds m.mu.
func (m *Mem) change(op nameOp) {
	op.apply(func(d *memDir) map[string]memNode { return d.names })
	op.seq = m.nameSeq.Add(1)
	m.pending = append(m.pending, op)
}

// syncNames makes the changes in d durable. The caller holds m.mu.
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
	clear(m.pending[len(rest):]) // lets removed files go
	m.pending = rest
}

// crashNames returns the names of directories after a crash, for those that
// differ from the durable ones. The caller holds m.cut.
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

// survives returns the wishes of the policy, for kept.
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

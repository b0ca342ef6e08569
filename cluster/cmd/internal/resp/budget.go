package resp

import "sync/atomic"

// freeBytes is how much of each kind a connection may keep in memory without asking: of commands, and of replies.
const freeBytes = 64 << 10

// A Budget is how many bytes all connections together may still keep in memory, beyond those that each has free.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a Budget of n bytes.
func NewBudget(n int64) *Budget {
	b := new(Budget)
	b.left.Store(n)
	return b
}

// Take takes n bytes, or none if there are fewer.
func (b *Budget) Take(n int64) bool {
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) { b.left.Add(n) }

// Left returns how many bytes are left.
func (b *Budget) Left() int64 { return b.left.Load() }

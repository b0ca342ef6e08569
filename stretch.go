package shale

import (
	"bytes"

	"github.com/shaledb/shale/sstable"
)

// This file has how a cursor takes the entries of a block without the merge.

// A stretch is a part of a data block that a cursor goes through without src, because no other table
// or memtable has a key there and nothing in it is hidden: see StretchUp of package sstable. While a
// cursor is in a stretch, table has the place, and src and kv are behind it. Every movement but a step
// of the stretch begins with settle, which brings them to where the cursor is.
type stretch struct {
	table *sstable.Iterator // nil: the cursor is in none
	left  int               // entries to come
	wait  int               // movements before the next look for a stretch
	pause int               // what wait becomes if that look finds none
}

// A look for a stretch costs as much as one or two steps, and may wait for parts of the block that a
// short scan never comes to. So the first look after a seek comes late, and looks that find nothing
// become rare.
const (
	seekPause = 16
	maxWait   = 64
)

// enterStretch looks for a stretch up (by is 1) or down (-1) from where the cursor is, and makes the
// first step. It reports whether there is one.
func (c *cursor) enterStretch(by int) bool {
	if c.stretch.wait--; c.stretch.wait > 0 {
		return false
	}
	if t := c.findStretch(by); t != nil {
		c.stretch.table, c.stretch.wait, c.stretch.pause, c.expiry = t, 0, 1, 0
		return c.step(by)
	}
	c.stretch.wait = c.stretch.pause
	c.stretch.pause = min(2*c.stretch.pause, maxWait)
	return false
}

// findStretch returns the table that has a stretch, and sets left. It returns nil if there is none.
func (c *cursor) findStretch(by int) *sstable.Iterator {
	if c.kv == nil || !c.spans.Empty() || c.tx != nil && (c.tx.watch != nil || !c.tx.deleted.Empty()) {
		return nil
	}
	at, rival := 0, []byte(nil)
	if len(c.sources) > 1 {
		at, rival = c.merging.Rival()
	}
	if at -= len(c.sources) - c.nruns; at < 0 {
		return nil // a memtable
	}
	t, bound := &c.runs[at].table, rival
	if by > 0 {
		if bound == nil || c.rng.Upper != nil && bytes.Compare(c.rng.Upper, bound) < 0 {
			bound = c.rng.Upper
		}
		c.stretch.left = t.StretchUp(bound, c.seq)
	} else {
		if bytes.Compare(c.rng.Lower, bound) > 0 {
			bound = c.rng.Lower
		}
		c.stretch.left = t.StretchDown(bound, c.seq)
		c.key = append(c.key[:0], c.kv.UserKey...) // Step needs a key of the block
	}
	if c.stretch.left == 0 {
		return nil
	}
	return t
}

// step takes the next entry of the stretch. Requires: left > 0.
func (c *cursor) step(by int) bool {
	c.stretch.left--
	c.key, c.value = c.stretch.table.Step(by, c.key)
	return true
}

// settle ends a stretch, if the cursor is in one: src and kv are then as other movements leave them.
func (c *cursor) settle() {
	if c.stretch.table == nil {
		return
	}
	c.kv = c.stretch.table.Settle()
	if c.backward {
		c.kv = c.src.Prev()
	}
	c.stretch.table, c.stretch.left = nil, 0
}

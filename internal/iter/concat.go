package iter

import (
	"github.com/shaledb/shale/internal/base"
)

// A ConcatSource gives the tables of a run. They are
// sorted, and their ranges of user keys are disjoint.
type ConcatSource interface {
	// Bounds returns the smallest and the largest user key of table i.
	Bounds(i int) (smallest, largest []byte)
	// Open returns an iterator over table i. The caller closes it.
	Open(i int) (base.Iterator, error)
}

// A ConcatFinder is a ConcatSource that finds a table in less time than a search
// by Bounds takes: each step of such a search waits for memory several times.
type ConcatFinder interface {
	ConcatSource
	// From returns how many tables end before key.
	From(key []byte) int
	// Before returns how many tables begin before key.
	Before(key []byte) int
}

// NewConcat returns an iterator over the n tables of src, one after
// the other. It opens a table when it first needs it, and closes it
// when it moves to another. So at most one table is open at a time.
func NewConcat(n int, src ConcatSource) base.Iterator {
	c := new(Concat)
	c.Reset(n, src)
	return c
}

// A Concat iterates over the tables of a run, one after
// the other: see NewConcat. The zero value has no tables.
//
// Invariant: it is nil, or an open iterator over the table with index
// at. The iterator has a position if it is not nil and ok is true.
type Concat struct {
	src    ConcatSource
	finder ConcatFinder // src as a ConcatFinder, or nil if it is none
	n      int

	at  int
	it  base.Iterator
	ok  bool
	err error

	stepper base.StepSeeker // during a seek in steps: it as a StepSeeker, or nil if it is none
}

// Reset gives c the n tables of src, as NewConcat
// does. Requires: c is closed, or was never used.
func (c *Concat) Reset(n int, src ConcatSource) {
	finder, _ := src.(ConcatFinder)
	*c = Concat{src: src, finder: finder, n: n, at: -1}
}

// Table returns the index of the open table, or -1 if there is none.
func (c *Concat) Table() int {
	if c.it == nil {
		return -1
	}
	return c.at
}

// First moves to the first entry of the first table that has one.
func (c *Concat) First() *base.KV {
	if !c.enter(0) {
		return nil
	}
	return c.onward(c.it.First())
}

// Last moves to the last entry of the last table that has one.
func (c *Concat) Last() *base.KV {
	if !c.enter(c.n - 1) {
		return nil
	}
	return c.back(c.it.Last())
}

// SeekGE moves to the first entry at or after (key, seq). It looks in the
// first table that ends at key or later. If all versions of key there are
// newer than seq, and no larger key follows, the entry is in the next table.
func (c *Concat) SeekGE(key []byte, seq base.Seq) *base.KV {
	if !c.enter(c.tableGE(key)) {
		return nil
	}
	return c.onward(c.it.SeekGE(key, seq))
}

// tableGE returns the index of the first table that
// ends at key or later, or n if there is none.
func (c *Concat) tableGE(key []byte) int {
	if c.it != nil && c.spans(key) {
		return c.at
	}
	if c.finder != nil {
		return c.finder.From(key)
	}
	lo, hi := 0, c.n
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if _, largest := c.src.Bounds(mid); string(largest) < string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// spans reports whether key lies within the bounds of the open table. If so, a seek in either
// direction begins there. Seeks to near keys find their table by this.
func (c *Concat) spans(key []byte) bool {
	smallest, largest := c.src.Bounds(c.at)
	return string(smallest) < string(key) && string(key) <= string(largest)
}

// SeekStep implements base.StepSeeker.
func (c *Concat) SeekStep(step int, key []byte, seq base.Seq) {
	if step == 0 {
		c.stepper = nil
		if c.enter(c.tableGE(key)) {
			c.stepper, _ = c.it.(base.StepSeeker)
		}
	}
	if c.stepper != nil {
		c.stepper.SeekStep(step, key, seq)
	}
}

// SeekEnd implements base.StepSeeker.
func (c *Concat) SeekEnd(key []byte, seq base.Seq) *base.KV {
	switch {
	case c.it == nil: // no table ends at key or later, or it could not be opened
		return nil
	case c.stepper == nil:
		return c.onward(c.it.SeekGE(key, seq))
	}
	return c.onward(c.stepper.SeekEnd(key, seq))
}

// SeekLT moves to the last entry whose user key is less
// than key. It is in the last table that begins before key.
func (c *Concat) SeekLT(key []byte) *base.KV {
	if !c.enter(c.tableLT(key)) {
		return nil
	}
	return c.back(c.it.SeekLT(key))
}

// SeekLTStep implements base.StepSeeker.
func (c *Concat) SeekLTStep(step int, key []byte) {
	if step == 0 {
		c.stepper = nil
		if c.enter(c.tableLT(key)) {
			c.stepper, _ = c.it.(base.StepSeeker)
		}
	}
	if c.stepper != nil {
		c.stepper.SeekLTStep(step, key)
	}
}

// SeekLTEnd implements base.StepSeeker.
func (c *Concat) SeekLTEnd(key []byte) *base.KV {
	switch {
	case c.it == nil: // no table begins before key, or it could not be opened
		return nil
	case c.stepper == nil:
		return c.back(c.it.SeekLT(key))
	}
	return c.back(c.stepper.SeekLTEnd(key))
}

// tableLT returns the index of the last table that
// begins before key, or -1 if there is none.
func (c *Concat) tableLT(key []byte) int {
	if c.it != nil && c.spans(key) {
		return c.at
	}
	if c.finder != nil {
		return c.finder.Before(key) - 1
	}
	lo, hi := 0, c.n
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if smallest, _ := c.src.Bounds(mid); string(smallest) < string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// Next moves one entry forward.
func (c *Concat) Next() *base.KV {
	if !c.ok {
		return nil
	}
	if kv := c.it.Next(); kv != nil {
		return kv
	}
	return c.onward(nil)
}

// Prev moves one entry back.
func (c *Concat) Prev() *base.KV {
	if !c.ok {
		return nil
	}
	if kv := c.it.Prev(); kv != nil {
		return kv
	}
	return c.back(nil)
}

// onward gets the result of a movement within the open table. If there is
// no entry, it goes on to the next tables until there is one. If the table
// has failed, it stops: an error must not look like the end of the table.
func (c *Concat) onward(kv *base.KV) *base.KV {
	for kv == nil {
		if c.err = c.it.Err(); c.err != nil || !c.enter(c.at+1) {
			c.ok = false
			return nil
		}
		kv = c.it.First()
	}
	c.ok = true
	return kv
}

// back is onward in the other direction.
func (c *Concat) back(kv *base.KV) *base.KV {
	for kv == nil {
		if c.err = c.it.Err(); c.err != nil || !c.enter(c.at-1) {
			c.ok = false
			return nil
		}
		kv = c.it.Last()
	}
	c.ok = true
	return kv
}

// enter makes table i the open table, and reports whether it did. It closes the
// table that was open before, unless that is table i. Afterwards the iterator has no
// position until onward or back finds one. Err returns an error of Open or Close.
func (c *Concat) enter(i int) bool {
	c.ok, c.err = false, nil
	if c.it != nil && c.at == i {
		return true
	}
	if c.err = c.leave(); c.err != nil || i < 0 || i >= c.n {
		return false
	}
	it, err := c.src.Open(i)
	if err != nil {
		c.err = err
		return false
	}
	c.it, c.at = it, i
	return true
}

// leave closes the open table, if there is one.
func (c *Concat) leave() error {
	if c.it == nil {
		return nil
	}
	it := c.it
	c.it = nil
	return it.Close()
}

// Err returns the error that ended the last movement.
func (c *Concat) Err() error { return c.err }

// Close closes the open table.
func (c *Concat) Close() error {
	err := c.leave()
	*c = Concat{}
	return err
}

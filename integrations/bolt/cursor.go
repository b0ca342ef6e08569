package bbolt

import (
	"bytes"
	"slices"
	"sync"

	"github.com/shaledb/shale"
)

// This file has Cursor.

// A Cursor goes over a bucket in the order of its keys. Keys that have a bucket come with a nil value. It needs not be closed:
// its transaction does that.
//
// At an end, First, Next and the others return a nil key. Next stays on the last key then, so that Prev returns the one
// before it, and Prev stays on the first one. After a Seek behind the last key, Prev returns the last one.
type Cursor struct {
	bucket      *Bucket
	bucketsOnly bool

	mu   sync.Mutex         // of its movements, and of release by others
	its  [2]*shale.Iterator // over the two parts of the bucket; nil: the part is empty, or there are no iterators
	skip int                // how many bytes their keys begin with
	at   *shale.Iterator    // the one that stands on key; nil: neither is known to
	// Each iterator stands on key, or on its first entry after it, or before it unless forward is set.
	forward bool
	seen    int  // Tx.writes of the transaction that the iterators show
	behind  bool // they also show keys that this cursor has deleted, but none before them

	key    []byte // nil: it stands nowhere
	end    bool   // Seek has passed the last key
	memory []byte // that keys and values are copied to
}

// maxOpen is how many cursors of a transaction have iterators at the same time. A program may make any number of cursors, and
// never closes one. Another one that moves gets its iterators again.
const maxOpen = 64

// Bucket returns the bucket that the cursor goes over.
func (c *Cursor) Bucket() *Bucket { return c.bucket }

// First moves to the first key.
func (c *Cursor) First() (key, value []byte) {
	return c.jump(true, (*shale.Iterator).First)
}

// Last moves to the last key.
func (c *Cursor) Last() (key, value []byte) {
	return c.jump(false, (*shale.Iterator).Last)
}

// Seek moves to the first key at seek or behind it.
func (c *Cursor) Seek(seek []byte) (key, value []byte) {
	key, value = c.jump(true, func(it *shale.Iterator) bool { return it.SeekGE(c.sought(it, seek)) })
	c.end = key == nil
	return key, value
}

// Next moves to the next key.
func (c *Cursor) Next() (key, value []byte) {
	return c.step(true, (*shale.Iterator).Next, func(it *shale.Iterator) bool {
		return it.SeekGE(append(c.sought(it, c.key), 0))
	})
}

// Prev moves to the key before.
func (c *Cursor) Prev() (key, value []byte) {
	if c.key == nil && c.end {
		return c.Last()
	}
	return c.step(false, (*shale.Iterator).Prev, func(it *shale.Iterator) bool { return it.SeekLT(c.sought(it, c.key)) })
}

// sought returns key as the store has it, in the part that it goes over.
func (c *Cursor) sought(it *shale.Iterator, key []byte) []byte {
	part := byte(partBuckets)
	if it == c.its[partValues] {
		part = partValues
	}
	return append(append(appendNumber(nil, c.bucket.number), part), key...)
}

// Delete removes the key on which the cursor stands. It fails if the key has a bucket.
func (c *Cursor) Delete() error {
	tx := c.bucket.tx
	if err := tx.mayWrite(); err != nil || c.key == nil {
		return err
	}
	fresh := c.seen == tx.writes
	if err := c.bucket.Delete(c.key); err != nil {
		return err
	}
	if fresh { // the iterators show all but this
		c.seen, c.behind = tx.writes, true
	}
	return nil
}

// jump moves the cursor, wherever it stands.
func (c *Cursor) jump(forward bool, move func(*shale.Iterator) bool) (key, value []byte) {
	c.bucket.tx.mustBeOpen()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key, c.end = nil, false
	return c.seek(forward, move)
}

// step moves the cursor from key, by advance if the iterators stand there, and otherwise by seek.
func (c *Cursor) step(forward bool, advance, seek func(*shale.Iterator) bool) (key, value []byte) {
	c.bucket.tx.mustBeOpen()
	if c.key == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil || c.forward != forward || c.seen != c.bucket.tx.writes {
		return c.seek(forward, seek)
	}
	advance(c.at)
	return c.land()
}

// seek moves both iterators, and the cursor to the entry that comes first.
func (c *Cursor) seek(forward bool, move func(*shale.Iterator) bool) (key, value []byte) {
	tx := c.bucket.tx
	if c.seen != tx.writes || c.behind {
		c.release()
	}
	if c.its[0] == nil && c.its[1] == nil && !c.bucket.deleted {
		c.seen, c.behind = tx.writes, false
		if c.bucket.parent {
			c.its[partBuckets] = c.open(partBuckets)
		}
		if !c.bucketsOnly {
			c.its[partValues] = c.open(partValues)
		}
		tx.opened(c)
	}
	c.forward = forward
	for _, it := range c.its {
		if it != nil {
			move(it)
		}
	}
	return c.land()
}

func (c *Cursor) open(part byte) *shale.Iterator {
	lower := append(appendNumber(nil, c.bucket.number), part)
	c.skip = len(lower)
	return c.bucket.tx.read.NewIterator(shale.Prefix(lower))
}

// land moves the cursor to the entry on which one of the iterators stands. If there is none, it stays where it was.
func (c *Cursor) land() (key, value []byte) {
	c.at = nil
	for _, it := range c.its {
		switch {
		case it == nil:
		case it.Valid():
			if c.at == nil || bytes.Compare(it.Key()[c.skip:], c.at.Key()[c.skip:]) < 0 == c.forward {
				c.at = it
			}
		case it.Err() != nil:
			c.bucket.tx.fail("Cursor", it.Err())
		}
	}
	if c.at == nil {
		return nil, nil
	}
	c.key = c.copy(c.at.Key()[c.skip:])
	if c.at == c.its[partBuckets] {
		return c.key, nil
	}
	return c.key, c.copy(c.at.Value())
}

// copy returns a copy of b, whose capacity is its length. A cursor that goes on gets memory in larger pieces.
func (c *Cursor) copy(b []byte) []byte {
	const most = 8 << 10
	if cap(c.memory)-len(c.memory) < len(b) {
		c.memory = make([]byte, 0, max(len(b), min(2*cap(c.memory), most)))
	}
	n := len(c.memory)
	c.memory = append(c.memory, b...)
	return c.memory[n:len(c.memory):len(c.memory)]
}

// release closes the iterators. Requires: mu is held.
func (c *Cursor) release() {
	for i, it := range c.its {
		if it != nil {
			_ = it.Close() // the error of its last movement, which is known
			c.its[i] = nil
		}
	}
	c.at = nil
}

// close is release for a cursor that is not used any more.
func (c *Cursor) close() {
	tx := c.bucket.tx
	c.mu.Lock()
	c.release()
	c.mu.Unlock()
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if i := slices.Index(tx.open, c); i >= 0 {
		tx.open = slices.Delete(tx.open, i, i+1)
	}
}

// opened takes note that c has iterators, and takes those of another cursor if there are many. Requires: c.mu is held.
func (tx *Tx) opened(c *Cursor) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if i := slices.Index(tx.open, c); i >= 0 {
		return
	}
	for i := 0; len(tx.open) >= maxOpen && i < len(tx.open); i++ {
		if o := tx.open[i]; o.mu.TryLock() { // else it moves
			o.release()
			o.mu.Unlock()
			tx.open = slices.Delete(tx.open, i, i+1)
		}
	}
	tx.open = append(tx.open, c)
}

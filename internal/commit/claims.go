package commit

import "hash/maphash"

// claims holds the keys that a group writes before its last conditional request. These
// keys are not in the memtable yet, so Memtables.WrittenSince does not know them. A conditional
// request asks claims whether an earlier request of its group writes its key.
//
// It stores hashes, with a seed of its own. If two keys have the same hash, a condition is
// lost without need, and the caller tries it again. A group of one request needs no claims.
type claims struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	left   int // conditional requests of the group that have not asked yet
}

// begin forgets the previous group, and counts the conditional requests of group.
func (c *claims) begin(group []*Request) {
	if len(c.hashes) > 0 { // to clear a large map takes long even if it is empty
		clear(c.hashes)
	}
	c.left = 0
	for _, r := range group {
		if r.IfAbsent {
			c.left++
		}
	}
	if c.left > 0 && c.hashes == nil {
		c.seed, c.hashes = maphash.MakeSeed(), make(map[uint64]struct{})
	}
}

// written reports whether a batch that was added may write key.
// Each conditional request of the group calls it at most once.
func (c *claims) written(key []byte) bool {
	c.left--
	_, ok := c.hashes[maphash.Bytes(c.seed, key)]
	return ok
}

// add adds the keys that b writes, unless no conditional request is left that could ask.
func (c *claims) add(b Batch) {
	if c.left == 0 {
		return
	}
	b.Visit(c)
}

// Key implements Visitor.
func (c *claims) Key(key []byte) { c.hashes[maphash.Bytes(c.seed, key)] = struct{}{} }

// Range implements Visitor. A range delete makes no key present, so it is no reason to look again.
func (c *claims) Range(lower, upper []byte) {}

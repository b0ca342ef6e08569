package commit

import "hash/maphash"

// claims are the keys that a group writes, as far as a conditional request comes
// after them: they are not in the memtable yet. It keeps hashes, by a function
// that nobody else uses; two keys with one hash only make a claim lose that is
// then made again. A group of one request needs no claims.
type claims struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	left   int // conditional requests of the group that are still to come
}

// begin forgets the last group, and counts the conditional requests of this one.
func (c *claims) begin(group []*Request) {
	if len(c.hashes) > 0 { // a large map that is empty takes long to clear
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
func (c *claims) written(key []byte) bool {
	c.left--
	_, ok := c.hashes[maphash.Bytes(c.seed, key)]
	return ok
}

// add adds what b writes, if somebody is still going to ask.
func (c *claims) add(b Batch) {
	if c.left == 0 {
		return
	}
	for key := range b.Keys {
		c.hashes[maphash.Bytes(c.seed, key)] = struct{}{}
	}
}

package cache

// sieve is the order in which the blocks of a shard leave: SIEVE (Zhang, Yang,
// Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024). Blocks stay in the order in
// which they came. A hand walks from the oldest to the newest; it spares a block
// that was hit since it last came by, and takes the next that was not. At the
// newest it starts over.
//
// A hit only sets a bit, in the table's slot, so it needs no lock. And it resists scans: as long as
// blocks come in that nobody asks for twice, the hand takes them one for one,
// right behind the newest, and does not get round to what it has spared.
//
// Guarded by the shard's mu.
type sieve struct {
	newest, oldest *Block
	hand           *Block // the next to look at; nil: the oldest
}

// add makes b the newest.
func (q *sieve) add(b *Block) {
	b.newer, b.older = nil, q.newest
	if q.newest != nil {
		q.newest.newer = b
	} else {
		q.oldest = b
	}
	q.newest = b
}

// remove takes b out.
func (q *sieve) remove(b *Block) {
	if q.hand == b {
		q.hand = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		q.newest = b.older
	}
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		q.oldest = b.newer
	}
	b.newer, b.older = nil, nil
}

// victim returns the block that should leave, which is left for the caller to
// remove. Requires: there is a block.
func (q *sieve) victim() *Block {
	b := q.hand
	if b == nil {
		b = q.oldest
	}
	for b.slot.unvisit() {
		b = b.newer
		if b == nil {
			b = q.oldest
		}
	}
	q.hand = b
	return b
}

package cache

// A sieve is the order in which the blocks of a shard are evicted: SIEVE (Zhang,
// Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024). Blocks
// stay in the order of their insertion. A hand walks from the oldest to the
// newest. It spares each block that was hit since the hand last passed it, and
// takes the first one that was not. At the newest it starts again with the oldest.
//
// A hit only sets a bit in the table's slot, so it needs no lock. SIEVE also resists
// scans. While new blocks come in that are used only once, the hand takes them one by
// one, right after they were inserted, and does not reach the blocks that it has spared.
//
// Guarded by the shard's mu.
type sieve struct {
	newest, oldest *Block
	hand           *Block // the block to look at next; nil: the oldest
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

// victim returns the block that should be evicted next.
// The caller removes it. Requires: there is a block.
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

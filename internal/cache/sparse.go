package cache

// A sparse is a binary min-heap of the chunks in use that are at most half full, by the
// bytes of their blocks. So the emptiest chunk is found without a look at the others, of
// which a large cache has thousands. In most caches the heap is empty or has one chunk,
// the newest, so it costs next to nothing to keep up to date.
//
// The heap is that of Williams (Algorithm 232, Communications of the ACM 7 (6), 1964),
// with the index of each chunk in the chunk, so that it can be moved when it changes.
// The shard's mu guards it.
type sparse []*chunk

// least returns the emptiest chunk, or nil if all are more than half full.
func (h sparse) least() *chunk {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// update gives c its place, or takes it out, after c was taken into use,
// given back, or got more or less bytes of blocks.
func (h *sparse) update(c *chunk) {
	in := c.first != nil && c.live <= len(c.mem)/2
	switch {
	case in && c.place == 0:
		*h = append(*h, c)
		c.place = len(*h)
		h.up(c)
	case in:
		h.up(c)
		h.down(c)
	case c.place > 0:
		last := (*h)[len(*h)-1]
		h.put(last, c.place)
		(*h)[len(*h)-1] = nil
		*h = (*h)[:len(*h)-1]
		c.place = 0
		if last != c {
			h.up(last)
			h.down(last)
		}
	}
}

// put stores c as the chunk with a place. Places count from 1: the chunk at
// place n is not emptier than the one at n/2. It is not inlined, because its fourteen callers
// would make each program larger.
//
//go:noinline
func (h sparse) put(c *chunk, place int) {
	h[place-1], c.place = c, place
}

// up moves c up while it is emptier than the chunk above it.
func (h sparse) up(c *chunk) {
	for c.place > 1 {
		above := h[c.place/2-1]
		if !c.emptier(above) {
			return
		}
		at := above.place
		h.put(above, c.place)
		h.put(c, at)
	}
}

// down moves c down while a chunk below it is emptier.
func (h sparse) down(c *chunk) {
	for 2*c.place <= len(h) {
		below := h[2*c.place-1]
		if 2*c.place < len(h) && h[2*c.place].emptier(below) {
			below = h[2*c.place]
		}
		if !below.emptier(c) {
			return
		}
		at := below.place
		h.put(below, c.place)
		h.put(c, at)
	}
}

// emptier reports whether c has fewer bytes of blocks than o, or as many and was made first.
func (c *chunk) emptier(o *chunk) bool {
	return c.live < o.live || c.live == o.live && c.id < o.id
}

package spans

import (
	"bytes"
	"iter"
	"slices"
	"sort"

	"github.com/shaledb/shale/internal/base"
)

// With returns s and a range delete of the keys from lower to upper, which is exclusive; nil: there is no bound. It
// copies the bounds. A range without keys changes nothing. It takes time in proportion to the intervals in the range, and
// to a 64th of all. Requires: seq is above 0.
func (s *Set) With(lower, upper []byte, seq base.Seq) *Set {
	if upper != nil {
		upper = append([]byte{}, upper...)
	}
	next := s.rewrite(append([]byte{}, lower...), upper, false, func(c *cover) *cover {
		if c == nil || c.seq < seq {
			return c.push(seq)
		}
		return c.union(&cover{seq: seq, len: 1})
	})
	if next != nil {
		next.last = max(next.last, seq)
	}
	return next
}

// union returns the numbers of both.
func (c *cover) union(o *cover) *cover {
	switch {
	case c == nil || c == o:
		return o
	case o == nil:
		return c
	case c.seq < o.seq:
		return c.union(o.next).push(o.seq)
	case c.seq == o.seq:
		o = o.next
	}
	return c.next.union(o).push(c.seq)
}

// Union returns the range deletes of both. If all of o lie behind all of s, it takes time in proportion to a 64th of both.
func (s *Set) Union(o *Set) *Set {
	switch {
	case s.Empty():
		return o
	case o.Empty():
		return s
	}
	if next := s.extend(o); next != nil {
		return next
	}
	for f := range o.All() {
		s = s.Add(f)
	}
	return s
}

// extend returns s and o behind it, or nil if that is not where o lies. A manifest begins with all range deletes, in order
// and in many records: to open one with 100,000 took seconds when each was looked for in all before it.
func (s *Set) extend(o *Set) *Set {
	n := len(s.chunks) - 1
	bounds := s.chunks[n].bounds
	end, first := bounds[len(bounds)-1], o.chunks[0].bounds[0]
	at := bytes.Compare(end.key, first.key)
	if end.covers != nil || at > 0 {
		return nil
	}
	next := &Set{last: max(s.last, o.last), bounds: s.bounds + o.bounds, bytes: s.bytes + o.bytes}
	if at < 0 {
		next.chunks = slices.Concat(s.chunks, o.chunks)
		return next.indexed()
	}
	// They touch: the first bound of o stands for the last one of s too.
	b := builder{bounds: bounds[:len(bounds)-1]}
	rest := b.chunks()
	next.chunks = slices.Concat(s.chunks[:n], rest, o.chunks)
	next.bounds--
	next.bytes -= s.chunks[n].bytes
	for _, c := range rest {
		next.bytes += c.bytes
	}
	return next.indexed()
}

// Join returns the set of fragments. ok is false if they are not in order, or overlap.
func Join(fragments []Fragment) (s *Set, ok bool) {
	b := builder{bounds: make([]bound, 0, 2*len(fragments))}
	s = new(Set)
	for _, f := range fragments {
		if n := len(b.bounds) - 1; n >= 0 {
			at := bytes.Compare(b.bounds[n].key, f.Lower)
			if b.last != nil || at > 0 {
				return nil, false
			}
			if at == 0 { // it touches the one before
				b.bounds, b.last = b.bounds[:n], b.bounds[n-1].covers
			}
		}
		b.add(f.Lower, f.covers)
		if f.Upper != nil {
			b.add(f.Upper, nil)
		}
		s.last = max(s.last, f.Newest())
		for range f.Seqs() {
			s.bytes += coverBytes
		}
	}
	s.chunks, s.bounds = b.chunks(), len(b.bounds)
	for _, c := range s.chunks {
		s.bytes += c.bytes
	}
	if s.bounds == 0 {
		return nil, true
	}
	return s.indexed(), true
}

// Add returns s and a fragment of another set.
func (s *Set) Add(f Fragment) *Set {
	next := s.rewrite(f.Lower, f.Upper, false, func(c *cover) *cover { return c.union(f.covers) })
	next.last = max(next.last, f.Newest())
	return next
}

// Without returns s without the numbers up to seq of the keys from lower to upper, which is exclusive; nil: there is no
// bound. It does not copy the bounds.
func (s *Set) Without(lower, upper []byte, seq base.Seq) *Set {
	if s.Empty() {
		return s
	}
	return s.rewrite(lower, upper, true, func(c *cover) *cover { return c.above(seq) })
}

// above returns the numbers of c above seq.
func (c *cover) above(seq base.Seq) *cover {
	if c == nil || c.seq <= seq {
		return nil
	}
	if next := c.next.above(seq); next != c.next {
		return next.push(c.seq)
	}
	return c
}

// UpTo returns s without the numbers above seq.
func (s *Set) UpTo(seq base.Seq) *Set {
	if s.Empty() {
		return nil
	}
	return s.rewrite(nil, nil, true, func(c *cover) *cover { return c.upTo(seq) })
}

// Equal reports whether both have the same numbers for all keys.
func (s *Set) Equal(o *Set) bool {
	if s.Empty() || o.Empty() || s == o {
		return s.Empty() == o.Empty()
	}
	// Neighbours with equal numbers become one fragment.
	next, stop := iter.Pull(o.UpTo(base.MaxSeq).All())
	defer stop()
	for f := range s.UpTo(base.MaxSeq).All() {
		g, ok := next()
		if !ok || !bytes.Equal(f.Lower, g.Lower) || !bytes.Equal(f.Upper, g.Upper) || (f.Upper == nil) != (g.Upper == nil) || !f.covers.equal(g.covers) {
			return false
		}
	}
	_, more := next()
	return !more
}

// Prune returns what readers can tell of s who read at one of the snapshots, which ascend, or later than all numbers of s: of
// the numbers of an interval that lie between two snapshots, only the greatest.
func (s *Set) Prune(snapshots []base.Seq) *Set {
	return s.rewrite(nil, nil, true, func(c *cover) *cover { return c.prune(snapshots) })
}

func (c *cover) prune(snapshots []base.Seq) *cover {
	if c == nil {
		return nil
	}
	// Those that see the next one, and not c, read at a snapshot below c.
	var next *cover
	if i := sort.Search(len(snapshots), func(i int) bool { return snapshots[i] >= c.seq }); i > 0 {
		next = c.next.upTo(snapshots[i-1]).prune(snapshots[:i])
	}
	if next != c.next {
		return next.push(c.seq)
	}
	return c
}

// rewrite returns a set in which the intervals from lower to upper have the numbers that fn returns for theirs. fn may
// share memory with its argument, which it does not change. upper is exclusive; nil: there is no bound. join says that
// neighbours may have equal numbers afterwards, and become one interval.
func (s *Set) rewrite(lower, upper []byte, join bool, fn func(*cover) *cover) *Set {
	if upper != nil && bytes.Compare(lower, upper) >= 0 {
		return s
	}
	if s == nil {
		s = new(Set)
	}
	// The chunks that change. The bound before the first one of them stays.
	from, to := max(s.chunkOf(lower), 0), len(s.chunks)
	if upper != nil {
		to = min(max(s.chunkOf(upper), from)+1, to) // at least one, or ranges that come in descending order were chunks of their own
	}
	b := builder{fn: fn, join: join}
	if from > 0 {
		before := s.chunks[from-1].bounds
		b.last = before[len(before)-1].covers
	}
	within := false // lower has been passed
	var covers *cover
	for _, c := range s.chunks[from:to] {
		for _, old := range c.bounds {
			at := bytes.Compare(old.key, lower)
			if !within && at >= 0 {
				within = true
				if at > 0 {
					b.changed(lower, covers)
				}
			}
			past := upper != nil && bytes.Compare(old.key, upper) >= 0
			if past && !b.passed {
				if b.passed = true; !bytes.Equal(old.key, upper) {
					b.add(upper, covers)
				}
			}
			if covers = old.covers; within && !past {
				b.changed(old.key, covers)
			} else {
				b.add(old.key, covers)
			}
		}
	}
	if !within {
		b.changed(lower, covers)
	}
	if upper != nil && !b.passed {
		b.add(upper, covers)
	}
	next := &Set{last: s.last, bounds: s.bounds, bytes: s.bytes + int64(b.made)*coverBytes}
	next.chunks = slices.Concat(s.chunks[:from], b.chunks(), s.chunks[to:])
	for _, c := range s.chunks[from:to] {
		next.bounds -= len(c.bounds)
		next.bytes -= c.bytes
	}
	for _, c := range next.chunks[from : len(next.chunks)-(len(s.chunks)-to)] {
		next.bounds += len(c.bounds)
		next.bytes += c.bytes
	}
	if next.bounds == 0 {
		return nil
	}
	return next.indexed()
}

// indexed returns s, which is new, with the heads of its chunks.
func (s *Set) indexed() *Set {
	s.firsts = headsOf(make([]uint64, len(s.chunks)), func(i int) []byte { return s.chunks[i].bounds[0].key })
	return s
}

// A builder collects the bounds of some chunks.
type builder struct {
	bounds []bound
	last   *cover // of the last bound
	passed bool   // upper has been passed

	fn       func(*cover) *cover
	join     bool
	from, to *cover // the last argument of fn and its result, which neighbours share
	made     int    // results that were made
}

// add adds a bound, unless the interval has the list of the one before it.
func (b *builder) add(key []byte, covers *cover) {
	if covers != b.last {
		b.bounds, b.last = append(b.bounds, bound{key, covers}), covers
	}
}

// changed adds a bound of an interval with the numbers that fn makes of covers.
func (b *builder) changed(key []byte, covers *cover) {
	if b.made == 0 || covers != b.from {
		b.from, b.to = covers, b.fn(covers)
		b.made++
		if b.join && b.to.equal(b.last) {
			b.to = b.last
		}
	}
	b.add(key, b.to)
}

// chunks cuts the bounds into chunks of half the largest size or more.
func (b *builder) chunks() (chunks []*chunk) {
	for rest := b.bounds; len(rest) > 0; {
		n := len(rest)
		if n > maxChunk {
			n = max(min(maxChunk, n-maxChunk/2), maxChunk/2)
		}
		chunks, rest = append(chunks, newChunk(rest[:n:n])), rest[n:]
	}
	return chunks
}

// newChunk returns a chunk with bounds, at least one and at most maxChunk.
func newChunk(bounds []bound) *chunk {
	c := &chunk{bounds: bounds, bytes: chunkBytes}
	for i, b := range bounds {
		c.bytes += boundBytes + int64(len(b.key))
		c.newest[i] = b.covers.at(base.MaxSeq)
	}
	c.least = slices.Min(c.newest[:len(bounds)])
	c.keys = headsOf(c.words[:len(bounds)], func(i int) []byte { return bounds[i].key })
	for i := 0; i < len(bounds); i += stride {
		c.steps[i/stride] = c.words[i]
	}
	c.keys.steps = c.steps[:(len(bounds)+stride-1)/stride]
	if same := c.keys.same; len(same) <= len(c.near) {
		c.keys.same = c.near[:copy(c.near[:], same)]
	}
	return c
}

// headsOf returns the heads of len(words) keys, at least one, in words.
func headsOf(words []uint64, key func(int) []byte) heads {
	h := heads{same: key(0), words: words}
	last := key(len(words) - 1)
	same := 0
	for same < min(len(h.same), len(last)) && h.same[same] == last[same] {
		same++
	}
	h.same = h.same[:same]
	for i := range h.words {
		h.words[i] = h.word(key(i))
	}
	return h
}

package spans

import (
	"bytes"
	"iter"
	"slices"
	"sort"

	"github.com/shaledb/shale/internal/base"
)

// With returns s and a range delete of the keys from lower to upper, which is exclusive; nil: there is no bound. It
// copies the bounds. A range without keys changes nothing. It takes time in proportion to a 64th of all intervals. Requires:
// seq is above 0.
func (s *Set) With(lower, upper []byte, seq base.Seq) *Set {
	if upper != nil {
		if bytes.Compare(lower, upper) >= 0 {
			return s
		}
		upper = append([]byte{}, upper...)
	}
	lower = append([]byte{}, lower...)
	if s.Empty() || s.last >= seq {
		return s.Add(Fragment{lower, upper, numbers{own: (*cover)(nil).push(seq)}})
	}
	from, to := s.touched(lower, upper)
	changed := make([]piece, 0, to-from+2)
	next := &Set{last: seq, bounds: s.bounds, bytes: s.bytes}
	for i, p := range s.chunks[from:to] {
		first := bytes.Compare(p.bounds[0].key, lower)
		if (i > 0 || first == 0) && (upper == nil || from+i+1 < to) && len(p.bounds) >= maxChunk/2 {
			next.bytes += coverBytes
			changed = append(changed, piece{p.chunk, p.over.push(seq)})
			continue
		}
		begins := i == 0
		if begins && first > 0 && p.over != nil { // its numbers do not cover what lies below it
			below := []bound{{lower, (*cover)(nil).push(seq)}}
			next.bytes += coverBytes
			end := -1 // upper is nil
			if upper != nil {
				end = bytes.Compare(p.bounds[0].key, upper)
			}
			if end > 0 {
				below = append(below, bound{key: upper})
			}
			if changed = append(changed, cut(below, nil)...); end >= 0 {
				changed = append(changed, p)
				continue
			}
			begins = false
		}
		bounds, made := p.with(lower, upper, seq, begins, upper != nil && from+i+1 == to)
		next.bytes += int64(made) * coverBytes
		changed = append(changed, cut(bounds, p.over)...)
	}
	return next.replace(s, from, to, changed)
}

// with returns the bounds of p with seq for its intervals from lower to upper, and how many elements of lists it has made. begins
// and ends say that lower and upper become bounds here, if they are not.
func (p piece) with(lower, upper []byte, seq base.Seq, begins, ends bool) (bounds []bound, made int) {
	bounds = make([]bound, 0, len(p.bounds)+2)
	var last *cover // of the interval before
	raise := func(key []byte, c *cover) {
		bounds = append(bounds, bound{key, c.push(seq)})
		made++
	}
	for _, b := range p.bounds {
		at := bytes.Compare(b.key, lower)
		if begins && at >= 0 {
			if begins = false; at > 0 {
				raise(lower, last)
			}
		}
		past := upper != nil && bytes.Compare(b.key, upper) >= 0
		if past && ends {
			if ends = false; !bytes.Equal(b.key, upper) {
				bounds = append(bounds, bound{upper, last})
			}
		}
		if last = b.covers; past || at < 0 {
			bounds = append(bounds, b)
		} else {
			raise(b.key, last)
		}
	}
	if begins {
		raise(lower, last)
	}
	if ends {
		bounds = append(bounds, bound{upper, last})
	}
	return bounds, made
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
	if o.bounds > s.bounds/maxChunk {
		return s.merge(o)
	}
	for f := range o.All() {
		s = s.Add(f)
	}
	return s
}

// merge returns the range deletes of both, in time that is linear in their bounds. Add takes time in proportion to a 64th of
// s: 10,000 fragments among 100,000 took 4 s.
func (s *Set) merge(o *Set) *Set {
	next := &Set{last: max(s.last, o.last), bytes: s.bytes + o.bytes}
	for _, p := range slices.Concat(s.chunks, o.chunks) {
		next.bytes -= p.bytes // replace counts those of the new ones
	}
	var b builder
	var have, more numbers
	add := func(key []byte) { b.add(key, have.list().union(more.list())) }
	i, j := 0, 0 // the next bound of o
	for _, p := range s.chunks {
		for n := range p.bounds {
			key := p.bounds[n].key
			for ; i < len(o.chunks); i, j = i+1, 0 {
				q := o.chunks[i]
				for ; j < len(q.bounds) && bytes.Compare(q.bounds[j].key, key) < 0; j++ {
					more = q.numbers(j)
					add(q.bounds[j].key)
				}
				if j < len(q.bounds) {
					if bytes.Equal(q.bounds[j].key, key) {
						more = q.numbers(j)
						j++
					}
					break
				}
			}
			have = p.numbers(n)
			add(key)
		}
	}
	for ; i < len(o.chunks); i, j = i+1, 0 {
		for q := o.chunks[i]; j < len(q.bounds); j++ {
			more = q.numbers(j)
			add(q.bounds[j].key)
		}
	}
	return next.replace(new(Set), 0, 0, cut(b.bounds, nil))
}

// extend returns s and o behind it, or nil if that is not where o lies. A manifest begins with all range deletes, in order
// and in many records: to open one with 100,000 took seconds when each was looked for in all before it.
func (s *Set) extend(o *Set) *Set {
	n := len(s.chunks) - 1
	bounds := s.chunks[n].bounds
	end, first := bounds[len(bounds)-1], o.chunks[0].bounds[0]
	at := bytes.Compare(end.key, first.key)
	if s.chunks[n].numbers(len(bounds)-1) != (numbers{}) || at > 0 {
		return nil
	}
	next := &Set{last: max(s.last, o.last), bounds: s.bounds, bytes: s.bytes + o.bytes}
	for _, p := range o.chunks {
		next.bytes -= p.bytes // replace counts them
	}
	if at < 0 {
		return next.replace(s, n+1, n+1, o.chunks)
	}
	// They touch: the first bound of o stands for the last one of s too.
	return next.replace(s, n, n+1, slices.Concat(cut(bounds[:len(bounds)-1], s.chunks[n].over), o.chunks))
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
		b.add(f.Lower, f.numbers.list())
		if f.Upper != nil {
			b.add(f.Upper, nil)
		}
		s.last = max(s.last, f.Newest())
		for range f.Seqs() {
			s.bytes += coverBytes
		}
	}
	return s.replace(new(Set), 0, 0, cut(b.bounds, nil)), true
}

// Add returns s and a fragment of another set, or one that has keys.
func (s *Set) Add(f Fragment) *Set {
	next := s.rewrite(f.Lower, f.Upper, false, func(n numbers) *cover { return n.list().union(f.numbers.list()) })
	next.last = max(next.last, f.Newest())
	return next
}

// Without returns s without the numbers up to seq of the keys from lower to upper, which is exclusive; nil: there is no
// bound. It does not copy the bounds.
func (s *Set) Without(lower, upper []byte, seq base.Seq) *Set {
	if s.Empty() {
		return s
	}
	return s.rewrite(lower, upper, true, func(n numbers) *cover { return n.own.above(seq).union(n.over.above(seq)) })
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
	return s.rewrite(nil, nil, true, func(n numbers) *cover { return n.own.upTo(seq).union(n.over.upTo(seq)) })
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
		if !ok || !bytes.Equal(f.Lower, g.Lower) || !bytes.Equal(f.Upper, g.Upper) || (f.Upper == nil) != (g.Upper == nil) || !f.numbers.list().equal(g.numbers.list()) {
			return false
		}
	}
	_, more := next()
	return !more
}

// Prune returns what readers can tell of s who read at one of the snapshots, which ascend, or later than all numbers of s: of
// the numbers of an interval that lie between two snapshots, only the greatest.
func (s *Set) Prune(snapshots []base.Seq) *Set {
	next := s.rewrite(nil, nil, true, func(n numbers) *cover {
		own, over := n.own.prune(snapshots), n.over.prune(snapshots)
		return own.union(over).prune(snapshots)
	})
	if next != nil { // nearly all lists have gone
		next.bytes = 0
		for _, p := range next.chunks {
			next.bytes += p.bytes
			for _, b := range p.bounds {
				next.bytes += int64(b.covers.length()) * coverBytes
			}
		}
	}
	return next
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

// touched returns which pieces a change of the keys from lower to upper changes: at least one, if there are some.
func (s *Set) touched(lower, upper []byte) (from, to int) {
	from, to = max(s.chunkOf(lower), 0), len(s.chunks)
	if upper != nil {
		to = min(max(s.chunkOf(upper), from)+1, to) // at least one, or ranges that come in descending order were chunks of their own
	}
	return from, to
}

// rewrite returns a set in which the intervals from lower to upper have the numbers that fn returns for theirs. fn may
// share memory with its argument, which it does not change. upper is exclusive; nil: there is no bound. join says that
// neighbours may have equal numbers afterwards, and become one interval.
func (s *Set) rewrite(lower, upper []byte, join bool, fn func(numbers) *cover) *Set {
	if upper != nil && bytes.Compare(lower, upper) >= 0 {
		return s
	}
	if s == nil {
		s = new(Set)
	}
	// The pieces that change. The bound before the first one of them stays.
	from, to := s.touched(lower, upper)
	b := builder{fn: fn, join: join}
	if from > 0 {
		before := s.chunks[from-1]
		b.last = before.numbers(len(before.bounds) - 1).list()
	}
	within := false // lower has been passed
	var last numbers
	for _, p := range s.chunks[from:to] {
		for j, old := range p.bounds {
			at := bytes.Compare(old.key, lower)
			if !within && at >= 0 {
				within = true
				if at > 0 {
					b.changed(lower, last)
				}
			}
			past := upper != nil && bytes.Compare(old.key, upper) >= 0
			if past && !b.passed {
				if b.passed = true; !bytes.Equal(old.key, upper) {
					b.add(upper, last.list())
				}
			}
			if last = p.numbers(j); within && !past {
				b.changed(old.key, last)
			} else {
				b.add(old.key, last.list())
			}
		}
	}
	if !within {
		b.changed(lower, last)
	}
	if upper != nil && !b.passed {
		b.add(upper, last.list())
	}
	next := &Set{last: s.last, bounds: s.bounds, bytes: s.bytes}
	if !join { // else what it has made stands for more
		next.bytes += int64(b.made) * coverBytes
	}
	return next.replace(s, from, to, cut(b.bounds, nil))
}

// replace makes s, which is new and has the sums of old, the set of the pieces of old with others in the place of those from
// number from up to to. It returns nil if there is none left.
func (s *Set) replace(old *Set, from, to int, pieces []piece) *Set {
	s.chunks = slices.Concat(old.chunks[:from], pieces, old.chunks[to:])
	for _, p := range old.chunks[from:to] {
		s.bounds -= len(p.bounds)
		s.bytes -= p.bytes
	}
	for _, p := range pieces {
		s.bounds += len(p.bounds)
		s.bytes += p.bytes
	}
	if s.bounds == 0 {
		return nil
	}
	s.firsts = old.firsts.with(make([]uint64, len(s.chunks)), from, len(old.chunks)-to, func(i int) []byte { return s.chunks[i].bounds[0].key })
	return s
}

// A builder collects the bounds of some pieces, whose numbers are all in the lists of their intervals.
type builder struct {
	bounds []bound
	last   *cover // of the last bound
	passed bool   // upper has been passed

	fn   func(numbers) *cover
	join bool
	from numbers // the last argument of fn and its result, which neighbours share
	to   *cover
	made int // results that were made
}

// add adds a bound, unless the interval has the list of the one before it.
func (b *builder) add(key []byte, covers *cover) {
	if covers != b.last {
		b.bounds, b.last = append(b.bounds, bound{key, covers}), covers
	}
}

// changed adds a bound of an interval with the numbers that fn makes of those that it has had.
func (b *builder) changed(key []byte, from numbers) {
	if b.made == 0 || from != b.from {
		b.from, b.to = from, b.fn(from)
		b.made++
		if b.join && b.to.equal(b.last) {
			b.to = b.last
		}
	}
	b.add(key, b.to)
}

// cut cuts bounds into pieces of half the largest size or more.
func cut(bounds []bound, over *cover) (pieces []piece) {
	for rest := bounds; len(rest) > 0; {
		n := len(rest)
		if n > maxChunk {
			n = max(min(maxChunk, n-maxChunk/2), maxChunk/2)
		}
		pieces, rest = append(pieces, piece{newChunk(rest[:n:n]), over}), rest[n:]
	}
	return pieces
}

// newChunk returns a chunk with bounds, at least one and at most maxChunk.
func newChunk(bounds []bound) *chunk {
	c := &chunk{bounds: bounds, oldest: base.MaxSeq, bytes: chunkBytes}
	for i, b := range bounds {
		c.oldest = min(c.oldest, b.covers.oldest())
		c.bytes += boundBytes + int64(len(b.key))
		c.newest[i] = b.covers.newest()
	}
	c.least = slices.Min(c.newest[:len(bounds)])
	c.keys = heads{}.with(c.words[:len(bounds)], 0, 0, func(i int) []byte { return bounds[i].key })
	for i := 0; i < len(bounds); i += stride {
		c.steps[i/stride] = c.words[i]
	}
	c.keys.steps = c.steps[:(len(bounds)+stride-1)/stride]
	if same := c.keys.same; len(same) <= len(c.near) {
		c.keys.same = c.near[:copy(c.near[:], same)]
	}
	return c
}

// with returns the heads of len(words) keys, at least one, in words. The first ones, up to from, and the last ones, tail of them,
// are those of h: their words are copied if what all keys begin with is as long as before.
func (h heads) with(words []uint64, from, tail int, key func(int) []byte) heads {
	n := len(words)
	first, last := key(0), key(n-1)
	same := 0
	for same < min(len(first), len(last)) && first[same] == last[same] {
		same++
	}
	next := heads{same: first[:same], words: words}
	i, end := 0, n
	if same == len(h.same) && from+tail > 0 {
		i, end = copy(next.words, h.words[:from]), n-copy(next.words[n-tail:], h.words[len(h.words)-tail:])
	}
	for ; i < end; i++ {
		next.words[i] = next.word(key(i))
	}
	return next
}

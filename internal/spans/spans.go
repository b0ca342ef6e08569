// Package spans has sets of range deletes. A store keeps all of its range deletes in memory, as it does with filters: a
// memtable has a Set of its own, and a version of the tables has one. So a lookup that a range delete answers reads nothing.
//
// A Set is a step function over the keys: it divides them into intervals, and each interval has the sequence numbers of
// the range deletes that cover it. It is immutable. A change makes a new one, which shares nearly all memory with the one
// before it. nil is the set without range deletes.
package spans

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"sort"

	"github.com/shaledb/shale/internal/base"
)

// A Set is a set of range deletes. Any number of goroutines may use it.
//
// Its bounds are in the order of their keys. The interval of a bound goes from its key to the key of the next bound, and
// that of the last one has no end. Below the first bound nothing is covered.
type Set struct {
	chunks []piece
	firsts heads    // of the first keys of all chunks
	last   base.Seq // no number is greater; one that has left may have been
	bounds int
	bytes  int64
}

// A piece is a chunk of a set with the numbers of range deletes that cover all of its intervals, but for those that the
// intervals have themselves. So a range that covers very many intervals adds a number to a 64th as many lists.
type piece struct {
	*chunk
	over *cover
}

// numbers returns those of the interval of bound j.
func (p piece) numbers(j int) numbers { return numbers{p.bounds[j].covers, p.over} }

// leastNewest returns the least of the newest numbers of all intervals; 0: one of them is not covered.
func (p piece) leastNewest() base.Seq { return max(p.least, p.over.newest()) }

// A chunk has some neighbouring bounds, at most maxChunk. A change copies the chunks that it touches, and the list of all.
// What Cover reads of one lies together, so that a lookup that finds none of it in the cache waits for three or four lines.
type chunk struct {
	keys   heads // its slices are near, if same fits, steps and words
	near   [24]byte
	steps  [maxChunk / stride]uint64
	words  [maxChunk]uint64
	newest [maxChunk]base.Seq // for each bound the first of its covers, or 0: as a rule it is what is asked for
	bounds []bound
	least  base.Seq // the least of newest; 0: an interval has no numbers of its own
	oldest base.Seq // the least number that an interval has of its own; base.MaxSeq: there is none
	bytes  int64
}

const (
	maxChunk = 64
	stride   = 8
)

// heads has 8 bytes of each of some keys that ascend, behind the bytes that all of them begin with. A search in it meets a few
// lines of memory; one that compares the keys themselves misses the cache with each, which cost a Get next to 10,000 range
// deletes 400 ns.
type heads struct {
	same  []byte // what all keys begin with
	words []uint64
	steps []uint64 // nil, or every word whose index is a multiple of stride
}

func (h *heads) word(key []byte) uint64 {
	if rest := key[len(h.same):]; len(rest) >= 8 {
		return binary.BigEndian.Uint64(rest)
	}
	var b [8]byte
	copy(b[:], key[len(h.same):])
	return binary.BigEndian.Uint64(b[:])
}

// last returns the index of the last key at key or before it, or -1. at returns a key by its index: keys with equal heads are
// compared as a whole.
func (h *heads) last(key []byte, at func(int) []byte) int {
	if !bytes.HasPrefix(key, h.same) {
		if bytes.Compare(key, h.same) < 0 {
			return -1
		}
		return len(h.words) - 1
	}
	word := h.word(key)
	last := h.upTo(word) - 1
	if last < 0 || h.words[last] < word {
		return last
	}
	first := sort.Search(last, func(i int) bool { return h.words[i] == word })
	return first + sort.Search(last+1-first, func(i int) bool { return bytes.Compare(at(first+i), key) > 0 }) - 1
}

// upTo returns how many words are not above word.
func (h *heads) upTo(word uint64) int {
	lo, hi := 0, len(h.words)
	for i, step := range h.steps {
		if step > word {
			hi = i * stride
			break
		}
		lo = i * stride
	}
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); h.words[mid] <= word {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

type bound struct {
	key    []byte
	covers *cover // the numbers that cover the interval, besides those of the piece
}

// A cover is a list of the numbers that cover an interval, newest first. Intervals share lists and their ends. Where
// ranges overlap in thousands, a list that was copied for each would need quadratic memory.
//
// Each element knows one further down besides the next one, so that a search takes logarithmic time: the distances are those
// of skew-binary numbers (Myers, "An applicative random-access stack", 1983).
type cover struct {
	seq  base.Seq
	next *cover
	jump *cover // next, or an element behind it; nil: c is the last one
	len  int    // of the list that begins here
}

const (
	chunkBytes = 1280
	boundBytes = 40 // that a bound takes besides its key
	coverBytes = 32
)

// newest returns the greatest number, or 0.
func (c *cover) newest() base.Seq {
	if c == nil {
		return 0
	}
	return c.seq
}

func (c *cover) length() int {
	if c == nil {
		return 0
	}
	return c.len
}

// oldest returns the least number, or base.MaxSeq.
func (c *cover) oldest() base.Seq {
	if c == nil {
		return base.MaxSeq
	}
	for c.jump != nil {
		c = c.jump
	}
	return c.seq
}

// push returns the list with a newer number in front. Requires: seq is above those of c.
func (c *cover) push(seq base.Seq) *cover {
	if c == nil {
		return &cover{seq: seq, len: 1}
	}
	jump := c
	if j := c.jump; j != nil && j.jump != nil && c.len-j.len == j.len-j.jump.len {
		jump = j.jump
	}
	return &cover{seq, c, jump, c.len + 1}
}

// upTo returns the part of the list with the numbers up to seq.
func (c *cover) upTo(seq base.Seq) *cover {
	for c != nil && c.seq > seq {
		if c.jump != nil && c.jump.seq > seq {
			c = c.jump
		} else {
			c = c.next
		}
	}
	return c
}

// at returns the newest number up to seq, or 0.
func (c *cover) at(seq base.Seq) base.Seq {
	if c = c.upTo(seq); c == nil {
		return 0
	}
	return c.seq
}

// leastAbove returns the least number above seq, or 0.
func (c *cover) leastAbove(seq base.Seq) base.Seq {
	if c == nil || c.seq <= seq {
		return 0
	}
	for c.next != nil && c.next.seq > seq {
		if c.jump.seq > seq {
			c = c.jump
		} else {
			c = c.next
		}
	}
	return c.seq
}

func (c *cover) equal(o *cover) bool {
	for ; c != o; c, o = c.next, o.next {
		if c == nil || o == nil || c.seq != o.seq {
			return false
		}
	}
	return true
}

// numbers are those of two lists. A number may be in both.
type numbers struct{ own, over *cover }

// at returns the newest number up to seq, or 0.
func (n numbers) at(seq base.Seq) base.Seq { return max(n.own.at(seq), n.over.at(seq)) }

// list returns the numbers as one list.
func (n numbers) list() *cover { return n.own.union(n.over) }

// seqs goes through the numbers, newest first.
func (n numbers) seqs(yield func(base.Seq) bool) {
	for n.own != nil || n.over != nil {
		seq := max(n.own.newest(), n.over.newest())
		if !yield(seq) {
			return
		}
		if n.own.newest() == seq {
			n.own = n.own.next
		}
		if n.over.newest() == seq {
			n.over = n.over.next
		}
	}
}

// Empty reports whether s has no range deletes.
func (s *Set) Empty() bool { return s == nil || s.bounds == 0 }

// Last returns a sequence number that no range delete of s exceeds: the greatest that s, or a set that it was made of, has had.
func (s *Set) Last() base.Seq {
	if s == nil {
		return 0
	}
	return s.last
}

// Bytes returns about how many bytes of memory s takes.
func (s *Set) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// Len returns the number of bounds, which is at most twice that of the covered intervals.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.bounds
}

// chunkOf returns the index of the last chunk that begins at key or before it, or -1.
func (s *Set) chunkOf(key []byte) int {
	return s.firsts.last(key, func(i int) []byte { return s.chunks[i].bounds[0].key })
}

// boundOf returns the index of the last bound at key or before it, or -1.
func (c *chunk) boundOf(key []byte) int {
	return c.keys.last(key, func(i int) []byte { return c.bounds[i].key })
}

// Cover returns the greatest number up to seq of the range deletes that cover key, or 0. It allocates nothing.
func (s *Set) Cover(key []byte, seq base.Seq) base.Seq {
	if s == nil {
		return 0
	}
	i := s.chunkOf(key)
	if i < 0 {
		return 0
	}
	c := s.chunks[i]
	j := c.boundOf(key)
	at := c.newest[j]
	if at > seq {
		at = c.bounds[j].covers.at(seq)
	}
	if c.over != nil {
		at = max(at, c.over.at(seq))
	}
	return at
}

// interval returns the interval that key is in: its numbers, its first key, and the first key behind it. lower is nil
// below the first bound, and upper behind the last one.
func (s *Set) interval(key []byte) (all numbers, lower, upper []byte) {
	if s.Empty() {
		return all, nil, nil
	}
	i := s.chunkOf(key)
	if i < 0 {
		return all, nil, s.chunks[0].bounds[0].key
	}
	f := s.fragment(i, s.chunks[i].boundOf(key))
	return f.numbers, f.Lower, f.Upper
}

// hidden reports whether key is covered by a number above above and up to seq. If so, all keys from key to upper are;
// nil: all keys from there on.
func (s *Set) hidden(key []byte, above, seq base.Seq) (upper []byte, yes bool) {
	if s.Empty() {
		return nil, false
	}
	i := s.chunkOf(key)
	if i < 0 {
		return nil, false
	}
	for j := s.chunks[i].boundOf(key); i < len(s.chunks); i, j = i+1, 0 {
		c := s.chunks[i]
		if j == 0 && c.leastNewest() > above && s.last <= seq {
			yes = true // all intervals of the chunk at once
			continue
		}
		for ; j < len(c.bounds); j++ {
			if c.numbers(j).at(seq) <= above {
				return c.bounds[j].key, yes
			}
			yes = true
		}
	}
	return nil, true
}

// hiddenBelow reports whether the keys right below key are covered by a number above above and up to seq. If so, all keys
// from lower to key are. nil is the empty key.
func (s *Set) hiddenBelow(key []byte, above, seq base.Seq) (lower []byte, yes bool) {
	if s.Empty() {
		return nil, false
	}
	i := sort.Search(len(s.chunks), func(i int) bool { return bytes.Compare(s.chunks[i].bounds[0].key, key) >= 0 }) - 1
	if i < 0 {
		return nil, false
	}
	j := len(s.chunks[i].bounds) - 1
	for bytes.Compare(s.chunks[i].bounds[j].key, key) >= 0 {
		j--
	}
	for {
		c := s.chunks[i]
		if j == len(c.bounds)-1 && c.leastNewest() > above && s.last <= seq {
			lower, yes = c.bounds[0].key, true
		} else {
			for ; j >= 0; j-- {
				if c.numbers(j).at(seq) <= above {
					return lower, yes
				}
				lower, yes = c.bounds[j].key, true
			}
		}
		if i--; i < 0 {
			return lower, yes
		}
		j = len(s.chunks[i].bounds) - 1
	}
}

// A Fragment is one interval that is covered.
type Fragment struct {
	Lower, Upper []byte // Upper is exclusive; nil: there is no bound
	numbers      numbers
}

// NewFragment returns a fragment. Requires: lower is below upper; seqs are not empty and descend.
func NewFragment(lower, upper []byte, seqs []base.Seq) Fragment {
	f := Fragment{Lower: lower, Upper: upper}
	for _, seq := range slices.Backward(seqs) {
		f.numbers.own = f.numbers.own.push(seq)
	}
	return f
}

// Seqs goes through the numbers that cover the interval, newest first.
func (f Fragment) Seqs() iter.Seq[base.Seq] { return f.numbers.seqs }

// Newest returns the greatest of the numbers.
func (f Fragment) Newest() base.Seq { return f.numbers.at(base.MaxSeq) }

// Oldest returns the least of the numbers.
func (f Fragment) Oldest() base.Seq { return min(f.numbers.own.oldest(), f.numbers.over.oldest()) }

// All goes through the fragments in order. Their bounds are part of s.
func (s *Set) All() iter.Seq[Fragment] { return s.Overlapping(nil, nil) }

// Next returns the first key above key at which a part of the keys with other numbers begins, if there is one.
func (s *Set) Next(key []byte) (next []byte, more bool) {
	_, _, next = s.interval(key)
	return next, next != nil
}

// Overlapping goes through the fragments that have keys from lower to upper, which is exclusive; nil: there is no bound.
func (s *Set) Overlapping(lower, upper []byte) iter.Seq[Fragment] {
	return func(yield func(Fragment) bool) {
		if s.Empty() {
			return
		}
		i, j := max(s.chunkOf(lower), 0), 0
		if n := s.chunks[i].boundOf(lower); n > 0 {
			j = n
		}
		for ; i < len(s.chunks); i, j = i+1, 0 {
			c := s.chunks[i]
			for ; j < len(c.bounds); j++ {
				if upper != nil && bytes.Compare(c.bounds[j].key, upper) >= 0 {
					return
				}
				if f := s.fragment(i, j); f.numbers != (numbers{}) && !yield(f) {
					return
				}
			}
		}
	}
}

// Older returns the first fragment that begins above key and has a number up to seq, or begins above last; nil: none does. It
// looks only at chunks in which there is one.
func (s *Set) Older(key, last []byte, seq base.Seq) (part Fragment, ok bool) {
	i, j := 0, 0
	if at := s.chunkOf(key); at >= 0 {
		i, j = at, s.chunks[at].boundOf(key)+1
	}
	above := func(key []byte) bool { return last != nil && bytes.Compare(key, last) > 0 }
	for ; i < len(s.chunks); i, j = i+1, 0 {
		p := s.chunks[i]
		if min(p.oldest, p.over.oldest()) > seq && !above(p.bounds[len(p.bounds)-1].key) {
			continue
		}
		for ; j < len(p.bounds); j++ {
			if f := s.fragment(i, j); f.numbers != (numbers{}) && (f.Oldest() <= seq || above(f.Lower)) {
				return f, true
			}
		}
	}
	return part, false
}

// fragment returns the interval of bound j of chunk i.
func (s *Set) fragment(i, j int) Fragment {
	p := s.chunks[i]
	f := Fragment{Lower: p.bounds[j].key, numbers: p.numbers(j)}
	switch {
	case j+1 < len(p.bounds):
		f.Upper = p.bounds[j+1].key
	case i+1 < len(s.chunks):
		f.Upper = s.chunks[i+1].bounds[0].key
	}
	return f
}

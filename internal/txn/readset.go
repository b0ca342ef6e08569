package txn

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"
	"sort"
)

// Hash is the hash by which a ReadSet knows keys. It is never 0 or 1, and differs from process to process.
func Hash(key []byte) uint64 { return max(maphash.Bytes(seed, key), 2) }

var seed = maphash.MakeSeed()

// A ReadSet is what a transaction has read: keys, and spans of keys. A span stands for a scan, with all between the
// entries that it gave, so that a key which is inserted there counts as read. Above maxBytes the set becomes a few spans
// that cover it: then it also has keys that were not read. One goroutine at a time uses a ReadSet.
type ReadSet struct {
	points []point
	slots  []uint32 // an open table of hashes: 1 + the index in points; a power of two of them, half empty at least
	keys   []byte   // of points, one after the other
	sorted []point  // points by key, if there are as many
	spans  []Span
	bytes  int // of what the spans have
	sealed bool
}

type point struct {
	hash   uint64
	offset int // of the key's length, as varint, and the key, in keys
}

// A Span is a span of keys that were read.
type Span struct {
	Lower, Upper []byte
	End          End
}

// An End says where a Span ends.
type End uint8

// The ends.
const (
	AtUpper     End = iota // Upper is the last key
	BeforeUpper            // Upper is behind the last key
	Unbounded              // there is no upper bound
)

const (
	maxBytes  = 8 << 20
	maxSpans  = 1024 // after folding
	pointSize = 24   // about, besides the key
	spanSize  = 64   // likewise
)

// Reset forgets all, and keeps memory for what is read next, unless it is large.
func (s *ReadSet) Reset() {
	if cap(s.points) > 1024 || cap(s.keys) > 64<<10 || cap(s.spans) > 256 {
		*s = ReadSet{}
		return
	}
	clear(s.slots)
	clear(s.spans)
	s.points, s.sorted, s.keys, s.spans, s.bytes, s.sealed = s.points[:0], s.sorted[:0], s.keys[:0], s.spans[:0], 0, false
}

// Empty reports whether nothing was read.
func (s *ReadSet) Empty() bool { return len(s.points) == 0 && len(s.spans) == 0 }

// AddKey notes that key was read. It copies key.
func (s *ReadSet) AddKey(key []byte) {
	hash := Hash(key)
	if 2*(len(s.points)+1) > len(s.slots) {
		s.grow()
	}
	i, found := s.slot(hash, key)
	if found {
		return
	}
	s.points = append(s.points, point{hash, len(s.keys)})
	s.keys = append(binary.AppendUvarint(s.keys, uint64(len(key))), key...)
	s.slots[i] = uint32(len(s.points))
	if len(s.keys)+pointSize*len(s.points)+s.bytes > maxBytes {
		s.fold()
	}
}

// AddSpan notes that all keys of a span were read. It copies the bounds. A span without keys, which a scan of an empty
// range has, is not kept: it would hide those that begin before it.
func (s *ReadSet) AddSpan(sp Span) {
	if c := bytes.Compare(sp.Lower, sp.Upper); sp.End != Unbounded && (c > 0 || c == 0 && sp.End == BeforeUpper) {
		return
	}
	n := len(sp.Lower)
	both := append(append(make([]byte, 0, n+len(sp.Upper)), sp.Lower...), sp.Upper...)
	s.spans = append(s.spans, Span{both[:n:n], both[n:], sp.End})
	s.sealed = false
	if s.bytes += spanSize + len(both); s.large() {
		s.fold()
	}
}

func (s *ReadSet) large() bool { return len(s.keys)+pointSize*len(s.points)+s.bytes > maxBytes }

// slot returns the slot that has key, or the one where it belongs.
func (s *ReadSet) slot(hash uint64, key []byte) (i int, found bool) {
	mask := len(s.slots) - 1
	for i = int(hash) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if p := s.points[s.slots[i]-1]; p.hash == hash && bytes.Equal(s.key(p), key) {
			return i, true
		}
	}
	return i, false
}

func (s *ReadSet) key(p point) []byte {
	key, _ := Cut(s.keys[p.offset:])
	return key
}

// grow doubles the table.
func (s *ReadSet) grow() {
	s.slots = make([]uint32, max(2*len(s.slots), 16))
	mask := len(s.slots) - 1
	for n, p := range s.points {
		i := int(p.hash) & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = uint32(n + 1)
	}
}

// fold makes all that was read maxSpans spans at most, of neighbours each.
func (s *ReadSet) fold() {
	for _, p := range s.points {
		key := bytes.Clone(s.key(p))
		s.spans = append(s.spans, Span{Lower: key, Upper: key})
	}
	s.sealed = false
	s.seal()
	all := s.spans
	each := (len(all) + maxSpans - 1) / maxSpans
	*s = ReadSet{sealed: true}
	for group := range slices.Chunk(all, each) {
		sp := group[0]
		sp.Upper, sp.End = group[len(group)-1].Upper, group[len(group)-1].End
		s.spans = append(s.spans, sp)
		s.bytes += spanSize + len(sp.Lower) + len(sp.Upper)
	}
}

// seal sorts the spans and joins those that overlap.
func (s *ReadSet) seal() {
	if s.sealed {
		return
	}
	s.sealed = true
	slices.SortFunc(s.spans, func(a, b Span) int { return bytes.Compare(a.Lower, b.Lower) })
	n := 0
	for _, sp := range s.spans {
		if n > 0 && s.spans[n-1].Reaches(sp.Lower) {
			s.spans[n-1].extend(sp)
			continue
		}
		s.spans[n] = sp
		n++
	}
	clear(s.spans[n:])
	s.spans = s.spans[:n]
}

// Reaches reports whether key, which is not below the span, is in it.
func (sp Span) Reaches(key []byte) bool {
	if sp.End == Unbounded {
		return true
	}
	c := bytes.Compare(key, sp.Upper)
	return c < 0 || c == 0 && sp.End == AtUpper
}

// Bound returns a key above all of the span, or nil if there is none.
func (sp Span) Bound() []byte {
	switch sp.End {
	case Unbounded:
		return nil
	case AtUpper:
		return append(bytes.Clone(sp.Upper), 0)
	}
	return sp.Upper
}

// extend moves the end of sp to that of other, if it is farther.
func (sp *Span) extend(other Span) {
	if c := bytes.Compare(other.Upper, sp.Upper); sp.End != Unbounded && (other.End == Unbounded || c > 0 || c == 0 && other.End == AtUpper) {
		sp.Upper, sp.End = other.Upper, other.End
	}
}

// Has reports whether key was read. hash is that of Hash.
func (s *ReadSet) Has(hash uint64, key []byte) bool {
	if len(s.points) > 0 {
		if _, found := s.slot(hash, key); found {
			return true
		}
	}
	if len(s.spans) == 0 {
		return false
	}
	s.seal()
	i := sort.Search(len(s.spans), func(i int) bool { return bytes.Compare(s.spans[i].Lower, key) > 0 })
	return i > 0 && s.spans[i-1].Reaches(key)
}

// HasIn reports whether a key of sp was read.
func (s *ReadSet) HasIn(sp Span) bool {
	s.sortPoints()
	i := sort.Search(len(s.sorted), func(i int) bool { return bytes.Compare(s.key(s.sorted[i]), sp.Lower) >= 0 })
	if i < len(s.sorted) && sp.Reaches(s.key(s.sorted[i])) {
		return true
	}
	s.seal()
	// The last span that begins within sp or before it.
	i = sort.Search(len(s.spans), func(i int) bool {
		lower := s.spans[i].Lower
		return bytes.Compare(lower, sp.Lower) > 0 && !sp.Reaches(lower)
	})
	return i > 0 && s.spans[i-1].Reaches(sp.Lower)
}

// sortPoints brings sorted up to date. A transaction is compared with ranges mostly when it has read all that it reads.
func (s *ReadSet) sortPoints() {
	if len(s.sorted) == len(s.points) {
		return
	}
	s.sorted = append(s.sorted[:0], s.points...)
	slices.SortFunc(s.sorted, func(a, b point) int { return bytes.Compare(s.key(a), s.key(b)) })
}

// Keys goes through the keys that were read, other than in spans. They are part of the set.
func (s *ReadSet) Keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, p := range s.points {
			if !yield(s.key(p)) {
				return
			}
		}
	}
}

// Spans returns the spans that were read, in order. They are part of the set.
func (s *ReadSet) Spans() []Span {
	s.seal()
	return s.spans
}

// A Watch notes what an iterator observes: all between the places to which it has moved since it went there by a seek.
type Watch struct {
	set     *ReadSet
	span    Span
	begun   bool
	noLower bool // the iterator went to the last of all keys, and has not arrived yet
	ended   bool
}

// NewWatch returns a watch of an iterator that has not moved.
func (s *ReadSet) NewWatch() *Watch { return &Watch{set: s} }

// SeekGE is called before the iterator moves to the first entry at or after key.
func (w *Watch) SeekGE(key []byte) { w.begin(key, BeforeUpper) }

// SeekLT is called before the iterator moves to the last entry before key; nil: to the last of all.
func (w *Watch) SeekLT(key []byte) {
	w.begin(key, BeforeUpper)
	if key == nil {
		w.span.End, w.noLower = Unbounded, true
	}
}

func (w *Watch) begin(key []byte, end End) {
	w.Flush()
	w.begun, w.noLower = true, false
	w.span = Span{append(w.span.Lower[:0], key...), append(w.span.Upper[:0], key...), end}
}

// Forward notes that the iterator went forward to key.
func (w *Watch) Forward(key []byte) {
	if !w.span.Reaches(key) {
		w.span.Upper, w.span.End = append(w.span.Upper[:0], key...), AtUpper
	}
}

// Backward notes that the iterator went back to key, or to the lower bound of its range, where there is no entry.
func (w *Watch) Backward(key []byte) {
	if w.noLower || bytes.Compare(key, w.span.Lower) < 0 {
		w.span.Lower, w.noLower = append(w.span.Lower[:0], key...), false
	}
}

// AtEnd notes that the iterator went forward past its last entry. upper is the bound of its range; nil: none.
func (w *Watch) AtEnd(upper []byte) {
	w.span.Upper, w.span.End = append(w.span.Upper[:0], upper...), BeforeUpper
	if upper == nil {
		w.span.End = Unbounded
	}
}

// Flush adds what was observed so far to the set.
func (w *Watch) Flush() {
	if w.begun {
		w.set.AddSpan(w.span)
	}
}

// End is Flush for the last time: the iterator is closed.
func (w *Watch) End() {
	w.Flush()
	w.ended = true
}

// Ended reports whether End was called.
func (w *Watch) Ended() bool { return w.ended }

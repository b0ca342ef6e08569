package cache

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// FalsePositives remembers which keys a table was proven not to hold although
// its filter said maybe, so that a key that is asked for again and again in
// vain costs a read once. A no from here ends a lookup, so it is exact: an entry
// is found by the number of its table and all bytes of its key, never by a hash
// alone. Forgetting is always allowed, and bounds it.
//
// It is an array of sets, allocated once and without pointers. When a set is
// full, CLOCK chooses who leaves: an entry that answered since the hand came by
// is spared once.
//
// A nil *FalsePositives remembers nothing.
type FalsePositives struct {
	sets []fpSet // at least one; constant
}

const (
	fpWays  = 16
	fpWords = 3 // of a way: the head and 16 bytes of key

	// fpLongest is the length of the longest key that fits into a set.
	fpLongest = (fpWays*fpWords - 1) * 8
)

// An fpSet holds entries, each in as many ways side by side as it needs: a head,
// which is table<<16 | length of key, and the key, padded with zeros. All words
// are atomic, so that Has needs no lock, and version tells it whether they are
// of one entry.
type fpSet struct {
	tags    [fpWays]atomic.Uint64 // of an entry's first way; else 0. A tag that fits says where to look, no more
	words   [fpWays * fpWords]atomic.Uint64
	version atomic.Uint32 // odd while Remember or Forget changes tags and words
	visited atomic.Uint32 // bit i: the entry of way i has answered since the hand came by

	// For Remember and Forget.
	mu   sync.Mutex
	span [fpWays]uint8 // the ways of the entry that begins here; 0: none does
	hand int           // where the next victim is looked for; no entry lies across
}

// NewFalsePositives returns a memory of at most so many bytes. If they do not
// suffice for one set, it remembers nothing.
func NewFalsePositives(bytes int) *FalsePositives {
	n := bytes / int(unsafe.Sizeof(fpSet{}))
	if n <= 0 {
		return nil
	}
	return &FalsePositives{sets: make([]fpSet, n)}
}

// place returns the set of an entry and its tag in it, which is not 0. The top
// bits of the mixed hash choose the set, so that any number of sets will do: a
// power of two left up to half of the bytes unused.
func (f *FalsePositives) place(table, hash uint64) (*fpSet, uint64) {
	h := mix(table, hash)
	i, _ := bits.Mul64(h, uint64(len(f.sets)))
	return &f.sets[i], h | 1
}

// fpFits tells whether there is a head for the table and the key.
func fpFits(table uint64, key []byte) bool { return len(key) <= fpLongest && table < 1<<48 }

func fpHead(table uint64, key []byte) uint64 { return table<<16 | uint64(len(key)) }

// fpSpan returns how many ways an entry takes.
func fpSpan(key []byte) int { return (1 + (len(key)+7)/8 + fpWords - 1) / fpWords }

// Has tells whether Remember was called with this table and this key. hash is
// the key's, the same for both calls.
func (f *FalsePositives) Has(table uint64, key []byte, hash uint64) bool {
	if f == nil || !fpFits(table, key) {
		return false
	}
	s, tag := f.place(table, hash)
	for i := range s.tags {
		if s.tags[i].Load() == tag && s.answers(i, tag, fpHead(table, key), key) {
			return true
		}
	}
	return false
}

// answers tells whether way i holds the entry, without a lock. In doubt, while the
// set changes, it does not.
func (s *fpSet) answers(i int, tag, head uint64, key []byte) bool {
	version := s.version.Load()
	if version&1 != 0 || s.tags[i].Load() != tag || !s.holds(i, head, key) || s.version.Load() != version {
		return false
	}
	if bit := uint32(1) << i; s.visited.Load()&bit == 0 {
		s.visited.Or(bit)
	}
	return true
}

// holds compares all of an entry.
func (s *fpSet) holds(i int, head uint64, key []byte) bool {
	if i+fpSpan(key) > fpWays || s.words[i*fpWords].Load() != head {
		return false
	}
	at := i*fpWords + 1
	for ; len(key) >= 8; key = key[8:] {
		if s.words[at].Load() != binary.LittleEndian.Uint64(key) {
			return false
		}
		at++
	}
	return len(key) == 0 || s.words[at].Load() == lastWord(key)
}

// lastWord pads less than eight bytes with zeros.
func lastWord(b []byte) (w uint64) {
	for i, c := range b {
		w |= uint64(c) << (8 * i)
	}
	return w
}

// Remember notes that table holds no version of key, now and for ever. key is
// copied. Keys of more than fpLongest bytes are not remembered.
func (f *FalsePositives) Remember(table uint64, key []byte, hash uint64) {
	if f == nil || !fpFits(table, key) {
		return
	}
	s, tag := f.place(table, hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	head := fpHead(table, key)
	for i := range s.tags {
		if s.tags[i].Load() == tag && s.holds(i, head, key) {
			return
		}
	}
	s.version.Add(1)
	s.put(s.room(fpSpan(key)), tag, head, key)
	s.version.Add(1)
}

// put writes an entry into free ways.
func (s *fpSet) put(i int, tag, head uint64, key []byte) {
	s.span[i] = uint8(fpSpan(key))
	s.visited.And(^(uint32(1) << i))
	at := i * fpWords
	s.words[at].Store(head)
	for ; len(key) >= 8; key = key[8:] {
		at++
		s.words[at].Store(binary.LittleEndian.Uint64(key))
	}
	if len(key) > 0 {
		s.words[at+1].Store(lastWord(key))
	}
	s.tags[i].Store(tag)
}

// room returns the first of n free ways side by side: free ones, or else those that
// the hand finds.
func (s *fpSet) room(n int) int {
	for i, free := 0, 0; i < fpWays; {
		if span := int(s.span[i]); span > 0 {
			i, free = i+span, 0
			continue
		}
		i, free = i+1, free+1
		if free == n {
			if i-n < s.hand && s.hand < i {
				s.hand = i
			}
			return i - n
		}
	}
	for {
		if s.hand+n > fpWays {
			s.hand = 0
		}
		if !s.spare(n) {
			at := s.hand
			s.clear(at, n)
			s.hand += n
			return at
		}
	}
}

// spare moves the hand past the first of the entries in the next n ways that has
// answered since it last came by, and reports whether there is one.
func (s *fpSet) spare(n int) bool {
	for i := s.hand; i < s.hand+n; i += max(1, int(s.span[i])) {
		bit := uint32(1) << i
		if s.visited.And(^bit)&bit != 0 {
			s.hand = i + int(s.span[i])
			return true
		}
	}
	return false
}

// clear drops the entries that begin in n ways.
func (s *fpSet) clear(i, n int) {
	for end := i + n; i < end; i++ {
		s.tags[i].Store(0)
		s.span[i] = 0
	}
}

// Forget drops what is known of a table that is gone. Its number must not be
// given to another.
func (f *FalsePositives) Forget(table uint64) {
	if f == nil {
		return
	}
	for i := range f.sets {
		s := &f.sets[i]
		s.mu.Lock()
		s.version.Add(1)
		for j := range s.tags {
			if s.span[j] > 0 && s.words[j*fpWords].Load()>>16 == table {
				s.clear(j, 1)
			}
		}
		s.version.Add(1)
		s.mu.Unlock()
	}
}

// Bytes returns how many bytes it takes.
func (f *FalsePositives) Bytes() int {
	if f == nil {
		return 0
	}
	return len(f.sets) * int(unsafe.Sizeof(fpSet{}))
}

package cache

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// FalsePositives remembers keys that a table certainly does not hold, although its
// filter says maybe. So if such a key is looked up again and again, it costs
// only one read. When Has returns true, a lookup ends. So the answer must be exact: an
// entry is found by the number of its table and all bytes of its key, and never by a hash
// alone. To forget an entry is always correct, which makes it possible to bound the memory.
//
// It is an array of sets without pointers, allocated when there is something to remember, because
// to clear that much memory takes milliseconds. When a set is full, CLOCK chooses the entry to replace:
// a hand goes round the set, and spares an entry once if Has has found it since the hand last passed it.
//
// A nil *FalsePositives remembers nothing.
type FalsePositives struct {
	n    int                     // of sets, at least one; constant
	made sync.Mutex              // held while sets is stored
	sets atomic.Pointer[[]fpSet] // nil: nothing was remembered so far
}

const (
	fpWays  = 16
	fpWords = 3 // words of a way

	// fpLongest is the length in bytes of the longest key that fits into a set.
	fpLongest = (fpWays*fpWords - 1) * 8
)

// An fpSet holds entries in its ways. An entry takes as many neighbouring ways
// as it needs. Its words are a head, which is table<<16 | length of key, and
// then the key, padded with zeros. All words are atomic, so that Has needs no
// lock. With version, Has detects whether it has read the words of one entry.
type fpSet struct {
	tags    [fpWays]atomic.Uint64 // hash of the entry that begins in the way, or 0: a hint for Has
	words   [fpWays * fpWords]atomic.Uint64
	version atomic.Uint32 // odd while Remember or Forget changes tags and words
	visited atomic.Uint32 // bit i: Has found the entry of way i since the hand passed it

	// Used by Remember and Forget.
	mu   sync.Mutex
	span [fpWays]uint8 // number of ways of the entry that begins here; 0: none begins here
	hand int           // way at which the next search for a victim begins; never inside an entry
}

// NewFalsePositives returns a FalsePositives that takes at most this
// number of bytes. If they are not enough for one set, it returns nil.
func NewFalsePositives(bytes int) *FalsePositives {
	n := bytes / int(unsafe.Sizeof(fpSet{}))
	if n <= 0 {
		return nil
	}
	return &FalsePositives{n: n}
}

// place returns the set of an entry, and the entry's tag in it, which is not 0. The top
// bits of the mixed hash choose the set by multiplication, so the number of sets need
// not be a power of two. With powers of two, up to half of the bytes were left unused.
func place(sets []fpSet, table, hash uint64) (*fpSet, uint64) {
	h := mix(table, hash)
	i, _ := bits.Mul64(h, uint64(len(sets)))
	return &sets[i], h | 1
}

// all returns the sets, and nil if nothing was remembered so far.
func (f *FalsePositives) all() []fpSet {
	if sets := f.sets.Load(); sets != nil {
		return *sets
	}
	return nil
}

// allocate makes the sets, and returns them.
func (f *FalsePositives) allocate() []fpSet {
	f.made.Lock()
	defer f.made.Unlock()
	if f.sets.Load() == nil {
		sets := make([]fpSet, f.n)
		f.sets.Store(&sets)
	}
	return f.all()
}

// fpFits reports whether an entry with this table and key can be remembered.
func fpFits(table uint64, key []byte) bool { return len(key) <= fpLongest && table < 1<<48 }

// fpHead returns the head of an entry.
func fpHead(table uint64, key []byte) uint64 { return table<<16 | uint64(len(key)) }

// fpSpan returns how many ways an entry takes.
func fpSpan(key []byte) int { return (1 + (len(key)+7)/8 + fpWords - 1) / fpWords }

// Has reports whether Remember was called with this table and this key, and
// the entry is still there. hash is the hash of key, the same for both calls.
func (f *FalsePositives) Has(table uint64, key []byte, hash uint64) bool {
	if f == nil || !fpFits(table, key) {
		return false
	}
	sets := f.all()
	if sets == nil {
		return false
	}
	s, tag := place(sets, table, hash)
	for i := range s.tags {
		if s.tags[i].Load() == tag && s.answers(i, tag, fpHead(table, key), key) {
			return true
		}
	}
	return false
}

// answers reports whether way i holds the entry. It takes no lock. If
// the set changes meanwhile, it returns false, which is always allowed.
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

// holds compares the head and all bytes of the key with the entry that begins at way i.
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

// lastWord returns a word with less than eight bytes of key, padded with zeros.
func lastWord(b []byte) (w uint64) {
	for i, c := range b {
		w |= uint64(c) << (8 * i)
	}
	return w
}

// Remember notes that table holds no version of key, and never will.
// It copies key. A key longer than fpLongest is not remembered.
func (f *FalsePositives) Remember(table uint64, key []byte, hash uint64) {
	if f == nil || !fpFits(table, key) {
		return
	}
	sets := f.all()
	if sets == nil {
		sets = f.allocate()
	}
	s, tag := place(sets, table, hash)
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

// put writes an entry into free ways, beginning with
// way i. Requires: mu is held, and version is odd.
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

// room returns the first of n neighbouring free ways. If there are none, it
// frees those that the hand comes to. Requires: mu is held, and version is odd.
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

// spare looks at the entries in the next n ways. If Has has found one of them since the
// hand last passed it, spare moves the hand past the first such entry and returns true.
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

// clear drops the entries that begin in the n ways from i up.
func (s *fpSet) clear(i, n int) {
	for end := i + n; i < end; i++ {
		s.tags[i].Store(0)
		s.span[i] = 0
	}
}

// Forget drops the entries of a table that no longer exists. It leaves sets without such
// entries alone: while a set changes, Has finds nothing in it.
// Requires: its number is not given to another table.
func (f *FalsePositives) Forget(table uint64) {
	if f == nil {
		return
	}
	sets := f.all()
	for i := range sets {
		s := &sets[i]
		if !s.mentions(table) {
			continue
		}
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

// mentions reports whether an entry of the table is in the set. It takes no lock.
func (s *fpSet) mentions(table uint64) bool {
	for i := range s.tags {
		if s.tags[i].Load() != 0 && s.words[i*fpWords].Load()>>16 == table {
			return true
		}
	}
	return false
}

// Bytes returns how much memory the sets take, in bytes.
func (f *FalsePositives) Bytes() int {
	if f == nil {
		return 0
	}
	return len(f.all()) * int(unsafe.Sizeof(fpSet{}))
}

package sketch

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Exact is a filter that does not make the same mistake twice. It stands in front of a
// filter of any type, and has a bounded list of keys that this filter lets pass although
// they are absent. A key enters the list when a lookup has not found it. The list compares
// whole keys, byte by byte. So no stays certain, even if strangers choose the keys.
//
// It is worth its memory if the lookup that follows a maybe is expensive, and if the
// same absent keys are asked for again and again. In a test, ten million questions
// asked for a million absent keys, Zipf by rank, through a filter of 1 %. This many of
// them led to a lookup in vain:
//
//	no list     65,400
//	64 KiB      23,400
//	256 KiB     11,800
//	1 MiB        7,600
//
// If every absent key is asked for only once, Exact gains nothing. It adds no cost to a key
// that the filter denies, and 25 ns to a key that it lets pass.
//
// Any number of goroutines may use it at once, as far as the filter below allows
// it. Asking takes no lock. A key may be noted as absent only if it stays absent
// until Present is called for it:
//
//	found := exact.MayContain(key)
//	if found {
//		since := exact.Since(key)
//		if found = lookUp(key); !found {
//			exact.Absent(key, since)
//		}
//	}
//
// Lookup does this. A caller that adds a key takes four steps, in this order: it adds the
// key to the filter, puts it where lookUp finds it, calls Present, and only then tells
// others that the key is there.
//
// The zero Exact has no filter and no room for absent keys: it answers maybe to every key.
// Exact has no serialized form, because the list of absent keys is only true until the next
// key is added. Write the filter below instead.
type Exact struct {
	filter bloom.Set    // nil in the zero Exact
	hasher bloom.Hasher // its seed is secret
	sets   []exactSet   // none in the zero Exact
}

// An exactSet is one part of the list. The hash of a key chooses the set. A set holds its
// entries in any order. If a new entry does not fit, the algorithm CLOCK removes another: a
// hand moves over the entries, spares each that has answered since the hand last passed it,
// and removes the first that has not.
//
// Readers load ways without a lock. All changes are made under mu.
type exactSet struct {
	ways    [exactWays]atomic.Pointer[exactEntry]
	version atomic.Uint64 // counts calls of Present for keys of this set, and of Reset; changes under mu

	mu   sync.Mutex
	used int // bytes of all entries
	hand int
}

// An exactEntry is an absent key. visited is set when it answers, and cleared by the hand.
type exactEntry struct {
	hash    uint64
	key     string // constant
	visited atomic.Bool
}

const (
	exactWays     = 16
	exactSetBytes = 1 << 10 // most bytes that the entries of a set take
	exactOverhead = int(unsafe.Sizeof(exactEntry{}))
)

// ExactOptions say how much an Exact remembers.
type ExactOptions struct {
	// Bytes is the memory of the list of absent keys. The list takes at most this much, but
	// at least 1.2 KB. A key of 16 bytes takes about 80. Keys of more than about 900 bytes
	// are not remembered. The default is 64 KiB, the largest value is 128 GiB.
	Bytes int
}

// NewExact returns a filter that answers like set, except for keys that it knows to be
// absent. The error says that set is nil, or that Bytes is out of bounds.
func NewExact(set bloom.Set, o ExactOptions) (*Exact, error) {
	bytes := o.Bytes
	switch {
	case set == nil:
		return nil, errors.New("bloom: new exact filter: no filter below")
	case bytes < 0 || bytes > form.MaxBytes:
		return nil, fmt.Errorf("bloom: new exact filter: Bytes is %d, not 0 to %d", bytes, uint64(form.MaxBytes))
	case bytes == 0:
		bytes = 64 << 10
	}
	perSet := exactSetBytes + int(unsafe.Sizeof(exactSet{}))
	h, err := bloom.NewHasher(bloom.HashSipHash, rand.Uint64())
	if err != nil {
		return nil, err // cannot happen: the function exists
	}
	return &Exact{filter: set, hasher: h, sets: make([]exactSet, max(1, bytes/perSet))}, nil
}

// MayContain reports whether key may be present: the filter lets it pass, and it is not
// known to be absent. False is certain.
func (e *Exact) MayContain(key []byte) bool {
	if e.filter == nil {
		return true
	}
	if !e.filter.MayContain(key) {
		return false
	}
	s, h := e.place(key)
	return s.find(h, key) == nil
}

// Since returns a mark of the present time for Absent. Call it before key is looked up.
func (e *Exact) Since(key []byte) uint64 {
	if len(e.sets) == 0 {
		return 0
	}
	s, _ := e.place(key)
	return s.version.Load()
}

// Absent notes that key was looked up after Since returned since, and was not found. The
// call is ignored if Present may have been called for key since then. The key is copied.
func (e *Exact) Absent(key []byte, since uint64) {
	if len(e.sets) == 0 {
		return
	}
	s, h := e.place(key)
	s.put(h, key, since)
}

// Present notes that key is present from now on. Requires: the key has been added to the
// filter, and a lookup finds it.
func (e *Exact) Present(key []byte) {
	if len(e.sets) == 0 {
		return
	}
	s, h := e.place(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version.Add(1)
	for i := range s.ways {
		if x := s.ways[i].Load(); x.is(h, key) {
			s.drop(i)
		}
	}
}

// Lookup reports whether key is present, exactly. If MayContain says maybe, it calls find,
// and notes the key as absent if find returns false. find must report whether key is
// present, or return an error, which Lookup returns.
func (e *Exact) Lookup(key []byte, find func(key []byte) (bool, error)) (bool, error) {
	if !e.MayContain(key) {
		return false, nil
	}
	since := e.Since(key)
	found, err := find(key)
	if err != nil || found {
		return found, err
	}
	e.Absent(key, since)
	return false, nil
}

// Reset forgets all absent keys. Call it after the filter has been filled with other keys.
func (e *Exact) Reset() {
	for i := range e.sets {
		s := &e.sets[i]
		s.mu.Lock()
		s.version.Add(1)
		for j := range s.ways {
			s.drop(j)
		}
		s.mu.Unlock()
	}
}

// Len returns how many absent keys are known.
func (e *Exact) Len() (n int) {
	for i := range e.sets {
		for j := range e.sets[i].ways {
			if e.sets[i].ways[j].Load() != nil {
				n++
			}
		}
	}
	return n
}

// SizeBytes returns the memory that the list takes when it is full. The memory of the
// filter below is not included.
func (e *Exact) SizeBytes() int {
	return len(e.sets) * (exactSetBytes + int(unsafe.Sizeof(exactSet{})))
}

// Filter returns the filter below.
func (e *Exact) Filter() bloom.Set { return e.filter }

// place returns the set of key, and the hash of key. Requires: e has sets.
func (e *Exact) place(key []byte) (*exactSet, uint64) {
	h := e.hasher.Hash(key)
	i, _ := bits.Mul64(h, uint64(len(e.sets)))
	return &e.sets[i], h
}

// is reports whether x is the entry of key. x may be nil.
func (x *exactEntry) is(h uint64, key []byte) bool {
	return x != nil && x.hash == h && x.key == string(key)
}

// size returns how many bytes the entry counts in the set.
func (x *exactEntry) size() int { return exactOverhead + len(x.key) }

// find returns the entry of key, or nil. It marks the entry, so that the hand spares it.
// The mark is loaded first: a store would take the cache line away from other readers.
func (s *exactSet) find(h uint64, key []byte) *exactEntry {
	for i := range s.ways {
		if x := s.ways[i].Load(); x.is(h, key) {
			if !x.visited.Load() {
				x.visited.Store(true)
			}
			return x
		}
	}
	return nil
}

// put adds an entry for key, unless it is too large or known already, or Present
// has been called for a key of this set after since was taken. It removes other
// entries until there is room.

func (s *exactSet) put(h uint64, key []byte, since uint64) {
	size := exactOverhead + len(key)
	if size > exactSetBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version.Load() != since || s.find(h, key) != nil {
		return
	}
	way := -1
	for i := range s.ways {
		if s.ways[i].Load() == nil {
			way = i
		}
	}
	for way < 0 || s.used+size > exactSetBytes {
		if i := s.victim(); i >= 0 {
			s.drop(i)
			way = i
		}
	}
	s.ways[way].Store(&exactEntry{hash: h, key: string(key)})
	s.used += size
}

// victim moves the hand to the next way. It returns the way that the hand has passed, if
// this has an entry that is not spared, or else -1.
func (s *exactSet) victim() int {
	i := s.hand
	s.hand = (s.hand + 1) % exactWays
	if x := s.ways[i].Load(); x != nil && !x.visited.Swap(false) {
		return i
	}
	return -1
}

// drop empties way i. Requires: the caller holds s.mu.
func (s *exactSet) drop(i int) {
	if x := s.ways[i].Load(); x != nil {
		s.used -= x.size()
		s.ways[i].Store(nil)
	}
}

package bloom

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Exact is a filter that does not make the same mistake twice: beside a filter of
// any kind it has a bounded list of keys that this lets pass although they are
// absent, found out by looking them up. They are compared byte by byte, so that no
// is as certain as before, whoever chooses the keys.
//
// It is worth its memory where the lookup that follows a maybe is dear and absent
// keys come again and again. Of ten million questions to a million absent keys, Zipf
// by rank, to a filter of 1 %, 65,400 were looked up in vain without it, 23,400 with a
// list of 64 KiB, 11,800 with one of 256 KiB and 7,600 with one of 1 MiB. If every absent key comes once it is
// worth nothing. A key that the filter denies costs nothing more, one that it lets
// pass 25 ns.
//
// Safe for use by any number of goroutines, as far as the filter below is. Asking takes no
// lock. What is absent must be so until Present is called:
//
//	found := exact.MayContain(key)
//	if found {
//		since := exact.Since(key)
//		if found = lookUp(key); !found {
//			exact.Absent(key, since)
//		}
//	}
//
// and whoever adds a key adds it to the filter, puts it where lookUp finds it,
// calls Present, and only then says that it is there. Lookup does the first part.
//
// The zero Exact has no filter and no room for absent keys: it says maybe to every
// key. It has no serialized form, as the list of absent keys is only true until the
// next key is added: write the filter below.
type Exact struct {
	filter Asker      // nil in the zero Exact
	hasher Hasher     // whose seed nobody knows
	sets   []exactSet // none in the zero Exact
}

// A set holds entries in any order. Those that do not fit into it any more leave by
// CLOCK: an entry that answered since the hand came by is spared once.
type exactSet struct {
	ways    [exactWays]atomic.Pointer[exactEntry]
	version atomic.Uint64 // calls of Present for keys of this set; changes under mu

	mu   sync.Mutex
	used int // bytes of the entries
	hand int
}

type exactEntry struct {
	hash    uint64
	key     string // constant
	visited atomic.Bool
}

const (
	exactWays     = 16
	exactSetBytes = 1 << 10 // of the entries of a set
	exactOverhead = int(unsafe.Sizeof(exactEntry{}))
)

// NewExact returns a filter that answers as f, but for the keys that it knows to
// be absent. Their list takes at most so many bytes, and at least 1.2 KB: some 80 a
// key of 16 bytes. Keys of more than some 900 bytes are not remembered. It panics if f
// is nil, and if bytes is below 0 or above 128 GiB.
func NewExact(f Asker, bytes int) *Exact {
	switch {
	case f == nil:
		panic(errors.New("bloom: new exact filter: no filter below"))
	case bytes < 0 || bytes > maxBytes:
		panic(fmt.Errorf("bloom: new exact filter: a list of %d bytes", bytes))
	}
	perSet := exactSetBytes + int(unsafe.Sizeof(exactSet{}))
	h, err := NewHasher(HashSipHash, rand.Uint64())
	if err != nil {
		panic(err) // there is one
	}
	return &Exact{filter: f, hasher: h, sets: make([]exactSet, max(1, bytes/perSet))}
}

// MayContain tells whether key may be there: the filter lets it pass, and it is
// not known to be absent. False is certain.
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

// Since returns a mark of the time, to be taken before key is looked up, for Absent.
func (e *Exact) Since(key []byte) uint64 {
	if len(e.sets) == 0 {
		return 0
	}
	s, _ := e.place(key)
	return s.version.Load()
}

// Absent notes that key was looked up after Since, and was not there. If since
// then Present may have been called for it, that is ignored. The key is copied.
func (e *Exact) Absent(key []byte, since uint64) {
	if len(e.sets) == 0 {
		return
	}
	s, h := e.place(key)
	s.put(h, key, since)
}

// Present notes that key is there from now on: it was added to the filter, and
// whoever looks it up finds it.
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

// Lookup answers whether key is there, exactly: MayContain, and if that is true
// then find, whose no is noted. find must say whether key is there, or an error,
// which is passed on.
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

// Reset forgets all absent keys, as when the filter was filled anew.
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

// SizeBytes returns the memory that the list takes when it is full. That of the
// filter is beside it.
func (e *Exact) SizeBytes() int {
	return len(e.sets) * (exactSetBytes + int(unsafe.Sizeof(exactSet{})))
}

// Filter returns the filter below.
func (e *Exact) Filter() Asker { return e.filter }

// place returns the set of key, and its hash. Requires: there are sets.
func (e *Exact) place(key []byte) (*exactSet, uint64) {
	h := e.hasher.Hash(key)
	i, _ := bits.Mul64(h, uint64(len(e.sets)))
	return &e.sets[i], h
}

// is tells whether x, which may be nil, is the entry of key.
func (x *exactEntry) is(h uint64, key []byte) bool {
	return x != nil && x.hash == h && x.key == string(key)
}

func (x *exactEntry) size() int { return exactOverhead + len(x.key) }

// find returns the entry of key or nil, and has it spared.
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

// victim moves the hand by one and returns the way that it came by, if there is
// an entry that is not spared, or else -1.
func (s *exactSet) victim() int {
	i := s.hand
	s.hand = (s.hand + 1) % exactWays
	if x := s.ways[i].Load(); x != nil && !x.visited.Swap(false) {
		return i
	}
	return -1
}

// drop empties a way.
func (s *exactSet) drop(i int) {
	if x := s.ways[i].Load(); x != nil {
		s.used -= x.size()
		s.ways[i].Store(nil)
	}
}

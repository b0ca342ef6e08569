package cache

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/shaledb/shale/internal/mutant"
)

// FalsePositives remembers which keys a table was proven not to hold although
// its filter said maybe, so that a key that is asked for again and again in
// vain costs a read once. A no from here ends a lookup, so it is exact: an entry
// is found by the number of its table and all bytes of its key, never by a hash
// alone. Forgetting is always allowed, and bounds it.
//
// It is an array of sets of eight slots, whose tags lie side by side. Has takes
// no lock: tags and entries are atomic, and an entry's key never changes. When a
// set is full, CLOCK chooses who leaves: an entry that answered since the hand
// came by is spared once.
//
// A nil *FalsePositives remembers nothing.
type FalsePositives struct {
	sets   []fpSet      // at least one; constant
	budget int32        // bytes of entries a set; constant
	used   atomic.Int64 // bytes of entries in all sets
}

const fpWays = 8

type fpSet struct {
	tags    [fpWays]atomic.Uint64 // 0: empty. A tag that fits says where to look, no more
	entries [fpWays]atomic.Pointer[fpEntry]

	// For Remember and Forget.
	mu   sync.Mutex
	hand uint8
	used int32
}

type fpEntry struct {
	table   uint64
	key     string
	visited atomic.Bool // it answered since the hand came by
}

// fpTypicalKey is the length of key for which sets are dimensioned: with longer
// ones a set runs out of bytes first, with shorter ones of slots.
const fpTypicalKey = 32

// fpCharge is at least what the allocator takes for an entry. It rounds up to
// multiples of 16 bytes; past 256 its classes lie further apart, by up to a
// sixth for the lengths that fit into a set.
func fpCharge(keyLen int) int32 {
	charge := int32(unsafe.Sizeof(fpEntry{})+15)&^15 + int32(keyLen+15)&^15
	if keyLen > 256 {
		charge += int32(keyLen / 6)
	}
	return charge
}

// NewFalsePositives returns a memory of at most so many bytes. If they do not
// suffice for one set, it remembers nothing.
func NewFalsePositives(bytes int) *FalsePositives {
	const setBytes = int(unsafe.Sizeof(fpSet{}))
	n := bytes / (setBytes + fpWays*int(fpCharge(fpTypicalKey)))
	if n <= 0 {
		return nil
	}
	sets := slices.Grow([]fpSet(nil), n)
	sets = sets[:cap(sets)] // what the allocator gives anyway
	return &FalsePositives{sets: sets, budget: int32(bytes/len(sets) - setBytes)}
}

// place returns the set of an entry and its tag in it, which is not 0. The top
// bits of the mixed hash choose the set, so that any number of sets will do: a
// power of two left up to half of the bytes unused.
func (f *FalsePositives) place(table, hash uint64) (*fpSet, uint64) {
	h := mix(table, hash)
	i, _ := bits.Mul64(h, uint64(len(f.sets)))
	return &f.sets[i], h | 1
}

// Has tells whether Remember was called with this table and this key. hash is
// the key's, the same for both calls.
func (f *FalsePositives) Has(table uint64, key []byte, hash uint64) bool {
	if f == nil {
		return false
	}
	s, tag := f.place(table, hash)
	for i := range s.tags {
		if s.tags[i].Load() != tag {
			continue
		}
		if mutant.AbsenceByHash {
			return true
		}
		if e := s.entries[i].Load(); e != nil && e.table == table && e.key == string(key) {
			if !e.visited.Load() {
				e.visited.Store(true)
			}
			return true
		}
	}
	return false
}

// Remember notes that table holds no version of key, now and for ever. key is
// copied. Keys that do not fit into a set, from about 400 bytes on, are not remembered.
func (f *FalsePositives) Remember(table uint64, key []byte, hash uint64) {
	if f == nil || len(key) > int(f.budget) || fpCharge(len(key)) > f.budget {
		return // the length first: the charge of a huge one might overflow
	}
	s, tag := f.place(table, hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := -1
	for i := range s.entries {
		e := s.entries[i].Load()
		if e == nil {
			slot = i
		} else if e.table == table && e.key == string(key) {
			return
		}
	}
	for slot < 0 || s.used+fpCharge(len(key)) > f.budget {
		if victim := s.victim(); victim >= 0 {
			f.drop(s, victim)
			slot = victim
		}
	}
	s.entries[slot].Store(&fpEntry{table: table, key: string(key)})
	s.tags[slot].Store(tag)
	s.used += fpCharge(len(key))
	f.used.Add(int64(fpCharge(len(key))))
}

// victim moves the hand on by one and returns the slot that it leaves behind,
// or -1 if that is empty or spared. Requires: s.mu is held.
func (s *fpSet) victim() int {
	i := int(s.hand)
	s.hand = (s.hand + 1) % fpWays
	e := s.entries[i].Load()
	if e == nil || e.visited.Swap(false) {
		return -1
	}
	return i
}

// drop empties a slot. A reader that sees the tag of one entry and the next
// entry of the slot compares the key, as always. Requires: s.mu is held.
func (f *FalsePositives) drop(s *fpSet, i int) {
	charge := fpCharge(len(s.entries[i].Load().key))
	s.tags[i].Store(0)
	s.entries[i].Store(nil)
	s.used -= charge
	f.used.Add(-int64(charge))
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
		for j := range s.entries {
			if e := s.entries[j].Load(); e != nil && e.table == table {
				f.drop(s, j)
			}
		}
		s.mu.Unlock()
	}
}

// Bytes returns how many bytes it takes, sets and entries.
func (f *FalsePositives) Bytes() int {
	if f == nil {
		return 0
	}
	return len(f.sets)*int(unsafe.Sizeof(fpSet{})) + int(f.used.Load())
}

package sketch

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// ErrRange says that a number is not below the limit of a Bitset.
var ErrRange = errors.New("number is beyond the limit")

// A Bitset is an exact set of dense numbers, such as the numbers of rows or of
// users: one bit for each number up to the largest member. It has no false
// positives, and lists its members in ascending order. It is the better filter if
// more than one number in ten is a member.
//
// It takes as much memory as its largest member needs, 12.5 MB for 100 million, and keeps
// that until Reset or Compact. The limit bounds it: the error for a number that is not
// below the limit is [ErrRange]. So a wrong large number costs an error, and not all the
// memory of the machine. The zero Bitset is empty and has [DefaultLimit].
//
// Measured with a million numbers in random order: 2 ns to set or clear one, 1 to
// ask for one. With a billion, which do not fit into the cache, it takes 23 to ask.
// To list one takes 1 to 3 ns.
//
// Any number of goroutines may ask a Bitset at once, as long as none changes it.
type Bitset struct {
	words []uint64 // bit n&63 of words[n>>6] stands for the number n; the last word may be 0
	limit uint64   // a multiple of 64; 0: DefaultLimit
	count uint64   // number of members

	shared bool // the words belong to the bytes of OpenBitset
}

// Limits of a Bitset.
const (
	// DefaultLimit is the limit of the zero Bitset: 2^32. Such a set takes at most 512 MiB.
	DefaultLimit = 1 << 32

	// MaxLimit is the largest limit: 2^40. Such a set takes at most 128 GiB.
	MaxLimit = 1 << 40
)

// BitsetOptions say which numbers a Bitset takes.
type BitsetOptions struct {
	// Limit is above all members. It is rounded up to a multiple of 64. The default is
	// DefaultLimit, the largest value is MaxLimit, or 2^33 where an int has 32 bits, because
	// larger numbers do not fit into memory.
	Limit uint64
}

// NewBitset returns an empty set. It takes no memory yet: see Grow. The error says that the
// limit is too large.
func NewBitset(o BitsetOptions) (*Bitset, error) {
	if o.Limit > mostLimit {
		return nil, fmt.Errorf("bloom: new bitset: a limit of %d, %d is the largest", o.Limit, uint64(mostLimit))
	}
	return &Bitset{limit: (o.Limit + 63) &^ 63}, nil
}

// mostLimit is MaxLimit, or less where the bytes of such a set would overflow an int.
const mostLimit = min(MaxLimit, 8*(math.MaxInt/2+1))

// Limit returns the limit: all members are below it.
func (s *Bitset) Limit() uint64 {
	if s.limit == 0 {
		return DefaultLimit
	}
	return s.limit
}

// Grow makes room for numbers below n, so that Set does not allocate for them. The error is
// [ErrRange] if n is above the limit.
func (s *Bitset) Grow(n uint64) error {
	if n == 0 || n <= uint64(len(s.words))<<6 {
		return nil
	}
	return s.reach(n - 1)
}

// reach appends words until there is one for i. If it allocates, it doubles the capacity,
// but not beyond the limit. Requires: there is no word for i.
func (s *Bitset) reach(i uint64) error {
	if i >= s.Limit() {
		return fmt.Errorf("bloom: %w: %d, limit %d", ErrRange, i, s.Limit())
	}
	need := i>>6 + 1
	if need <= uint64(cap(s.words)) {
		s.words = s.words[:need] // words between length and capacity are 0
		return nil
	}
	s.shared = false
	words := make([]uint64, need, min(max(need, 2*uint64(len(s.words))), s.Limit()>>6))
	copy(words, s.words)
	s.words = words
	return nil
}

// own copies the words if they belong to the bytes of OpenBitset. It comes before each
// change of a word.
func (s *Bitset) own() {
	if s.shared {
		s.copyWords()
	}
}

// copyWords is apart from own so that the compiler inlines own.
func (s *Bitset) copyWords() { s.words, s.shared = slices.Clone(s.words), false }

// Set adds i. The error is [ErrRange] if i is not below the limit.
func (s *Bitset) Set(i uint64) error {
	_, err := s.CheckAndSet(i)
	return err
}

// CheckAndSet adds i and reports whether it was a member before. The error is [ErrRange]
// if i is not below the limit.
func (s *Bitset) CheckAndSet(i uint64) (was bool, err error) {
	if i>>6 >= uint64(len(s.words)) {
		if err := s.reach(i); err != nil {
			return false, err
		}
	}
	s.own()
	w := &s.words[i>>6]
	before := *w >> (i & 63) & 1
	*w |= 1 << (i & 63)
	s.count += before ^ 1
	return before != 0, nil
}

// Clear removes i and reports whether it was a member.
func (s *Bitset) Clear(i uint64) (was bool) {
	if i>>6 >= uint64(len(s.words)) {
		return false
	}
	s.own()
	w := &s.words[i>>6]
	before := *w >> (i & 63) & 1
	*w &^= 1 << (i & 63)
	s.count -= before
	return before != 0
}

// Has reports whether i is a member.
func (s *Bitset) Has(i uint64) bool {
	return i>>6 < uint64(len(s.words)) && s.words[i>>6]>>(i&63)&1 != 0
}

// Count returns the number of members. It is kept, not counted.
func (s *Bitset) Count() uint64 { return s.count }

// Max returns the largest member. ok is false if the set is empty.
func (s *Bitset) Max() (i uint64, ok bool) {
	n := s.used()
	if n == 0 {
		return 0, false
	}
	return uint64(n)<<6 - 1 - uint64(bits.LeadingZeros64(s.words[n-1])), true
}

// used returns the number of words up to the last one that is not 0.
func (s *Bitset) used() int {
	n := len(s.words)
	for n > 0 && s.words[n-1] == 0 {
		n--
	}
	return n
}

// All returns the members in ascending order. The set may be changed during the
// iteration. It then sees changes that are more than 64 above the current member;
// nearer ones it may or may not see.
func (s *Bitset) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n := uint64(0); n < uint64(len(s.words)); n++ {
			for w := s.words[n]; w != 0; w &= w - 1 {
				if !yield(n<<6 | uint64(bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// SizeBytes returns the memory that the bits take.
func (s *Bitset) SizeBytes() int { return cap(s.words) * 8 }

// Reset removes all members and frees the memory.
func (s *Bitset) Reset() { s.words, s.count, s.shared = nil, 0, false }

// Compact frees the memory above the largest member.
func (s *Bitset) Compact() { s.words, s.shared = slices.Clone(s.words[:s.used()]), false }

// Clone returns a copy in memory of its own.
func (s *Bitset) Clone() *Bitset {
	return &Bitset{words: slices.Clone(s.words), limit: s.limit, count: s.count}
}

// Union adds the members of other. If one of them is not below the limit of s, the error is
// [ErrRange] and nothing changes.
func (s *Bitset) Union(other *Bitset) error {
	if largest, ok := other.Max(); ok && largest>>6 >= uint64(len(s.words)) {
		if err := s.reach(largest); err != nil {
			return err
		}
	}
	s.own()
	for i, w := range other.words[:other.used()] {
		s.count += uint64(bits.OnesCount64(w &^ s.words[i]))
		s.words[i] |= w
	}
	return nil
}

// Intersect removes the members that other does not have. The error is always nil.
func (s *Bitset) Intersect(other *Bitset) error {
	s.own()
	s.count = 0
	for i := range s.words {
		if i < len(other.words) {
			s.words[i] &= other.words[i]
		} else {
			s.words[i] = 0
		}
		s.count += uint64(bits.OnesCount64(s.words[i]))
	}
	return nil
}

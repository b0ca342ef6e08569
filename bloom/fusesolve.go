package bloom

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A fuseSolver finds the fingerprints of a fuse filter, by the method of Graf and Lemire
// ("Binary Fuse Filters: Fast and Smaller Than Xor Filters", 2022). It keeps its memory from
// filter to filter.
//
//  1. fill notes for each place which keys have it: their number, and the xor of their
//     entries.
//  2. peel looks for a place that only one key has. That key is noted with the place, and is
//     taken out of its two other places. Then other places have only one key. This goes on
//     until no key is left.
//  3. assign goes through these notes from the last to the first. It gives each key's place
//     the fingerprint with which the xor of the three places is the key's own. No key that
//     comes later in assign has a place that an earlier one depends on.
//
// If peel gets stuck, everything begins again with another seed. That happens to 4 of 100
// filters.
//
// # Entries
//
// The table has one word for each place:
//
//	63         50 49   48 47                                  0
//	|number of keys|which|low 48 bits of the key's mixed hash  |
//
// The first field is a sum, the others are xors. Which says whether the place is the first
// (0), second (1) or third (2) of the key. So once a place has one key, the word has all that
// is needed of that key: the distances to the second and third place are in the low 36 bits,
// the fingerprint is the xor of the low 16 bits and of those from 32 up, and the first place
// follows from the place itself. No key has to be stored, and a place takes 8 bytes and one
// access to memory.
type fuseSolver struct {
	table    []uint64 // one entry for each place
	order    []uint32 // places: those with one key, in the order in which they are found
	distinct []uint64 // the hashes without repetitions; only used if some are equal

	// Only used for filters with more than unsortedPlaces.
	sorted []uint64 // mixed hashes, in the order of their first places, by and large
	ends   []uint32 // where the hashes of each part of the filter end in sorted
}

// Fields of an entry.
const (
	whichAt    = 48
	countAt    = 50
	hashMask   = 1<<whichAt - 1
	oneKey     = 1 << countAt
	notTheKeys = 1 << 63 // set in the number of keys from 8192 up
)

// fuseAttempts is how many seeds are tried. With random hashes the chance that all of them
// fail is nil for any practical purpose.
const fuseAttempts = 1024

var errNoSeed = errors.New("no seed will do")

// solve finds the fingerprints for hashes, to which salt is added, and the seed that goes
// with them. It leaves the fingerprints in the low 16 bits of s.table, and the number and
// length of the segments in t. It tries at most attempts seeds.
func (s *fuseSolver) solve(hashes []uint64, salt uint64, t *fuseTrailer, attempts int) (seed uint64, err error) {
	n := len(hashes)
	l := fuseLayout(n, int(t.r))
	places := int((l.segments + 2) * l.length)
	s.table, s.order = resize(s.table, places), resize(s.order, places+1)
	counter := uint64(1)
	for attempt := 1; attempt <= attempts; attempt++ {
		seed = salt + splitmix64(&counter)
		t.segments, t.length = l.segments, l.length
		if attempt%4 == 2 && n > 4 && n < 1e6 {
			// For a few numbers of keys the segments are too long, and most seeds fail.
			t.segments, t.length = 2*l.segments+2, l.length/2
		}
		if s.fill(hashes, seed, t) {
			if peeled := s.peel(t); len(peeled) == len(hashes) {
				s.assign(peeled, t)
				return seed, nil
			}
		}
		if attempt == 1 {
			hashes = s.withoutEqual(hashes)
		}
	}
	return 0, errNoSeed
}

// withoutEqual returns hashes without repetitions. Keys with equal hashes never have a place
// that only one of them has, so that no seed would do.
func (s *fuseSolver) withoutEqual(hashes []uint64) []uint64 {
	s.distinct = append(s.distinct[:0], hashes...)
	slices.Sort(s.distinct)
	if distinct := slices.Compact(s.distinct); len(distinct) < len(hashes) {
		return distinct
	}
	return hashes
}

// splitmix64 returns the next output of that generator (Steele, Lea and Flood 2014).
func splitmix64(counter *uint64) uint64 {
	*counter += 0x9e3779b97f4a7c15
	z := *counter
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// resize returns b with n elements of any content.
func resize[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

// unsortedPlaces is how many places a filter may have so that its entries, 2 MiB of them, are
// filled in the order in which the hashes come. In a larger table each access would wait for
// memory.
const unsortedPlaces = 1 << 18

// fill makes the entries of all places. It returns false if a place has so many keys that
// their number does not fit. That only happens if thousands of hashes are equal.
func (s *fuseSolver) fill(hashes []uint64, seed uint64, t *fuseTrailer) bool {
	clear(s.table)
	if len(s.table) > unsortedPlaces {
		return s.fillSorted(hashes, seed, t)
	}
	span, seen := t.segments*t.length, uint64(0)
	for _, h := range hashes {
		seen |= addEntries(s.table, form.Finish(h+seed), span, t.length)
	}
	return seen&notTheKeys == 0
}

// fillSorted is fill for a large table. It sorts the mixed hashes by the part of the filter
// in which their first places lie, and takes one part after the other.
func (s *fuseSolver) fillSorted(hashes []uint64, seed uint64, t *fuseTrailer) bool {
	parts := uint64(1) << bits.Len64(t.segments)
	s.ends, s.sorted = resize(s.ends, int(parts)), resize(s.sorted, len(hashes))
	clear(s.ends)
	for _, h := range hashes {
		part, _ := bits.Mul64(form.Finish(h+seed), parts)
		s.ends[part]++
	}
	start := uint32(0)
	for i, n := range s.ends {
		s.ends[i], start = start, start+n
	}
	for _, h := range hashes {
		x := form.Finish(h + seed)
		part, _ := bits.Mul64(x, parts)
		s.sorted[s.ends[part]] = x
		s.ends[part]++
	}
	span, seen := t.segments*t.length, uint64(0)
	for _, x := range s.sorted {
		seen |= addEntries(s.table, x, span, t.length)
	}
	return seen&notTheKeys == 0
}

// addEntries adds a key with the mixed hash x to the entries of its three places. It returns
// the union of the three.
func addEntries(table []uint64, x, span, length uint64) uint64 {
	first, _ := bits.Mul64(x, span)
	x &= hashMask
	second, third := fusePlaces(x, first, length)
	a := (table[first] ^ x) + oneKey
	table[first] = a
	b := (table[second] ^ (x | 1<<whichAt)) + oneKey
	table[second] = b
	c := (table[third] ^ (x | 2<<whichAt)) + oneKey
	table[third] = c
	return a | b | c
}

// fusePlaces returns the second and the third place of a key with the mixed hash x.
func fusePlaces(x, first, length uint64) (second, third uint64) {
	return (first + length) ^ (x >> 18 & (length - 1)), (first + 2*length) ^ (x & (length - 1))
}

// firstPlace returns the first of the places of a key. place is the one that which says, 0 to
// 2, and x is the key's entry without the other fields.
func firstPlace(x, which, place, length uint64) uint64 {
	const shifts = whichAt | 18<<8 | 0<<16 // where the distance begins that place contains
	distance := x >> (shifts >> (8 * which) & 63) & (length - 1)
	return (place ^ distance) - which*length
}

// peelPlaces is how many places peel searches at a time.
const peelPlaces = 4096

// peel takes out one key after the other, and returns their places in that order. Each of
// them keeps the entry of its key, but for the number. All other places have only zeros in
// the end, if all keys were peeled.
//
// It goes through the places from the first to the last, a few thousand at a time, and takes
// out all keys that it can before it goes on. So it works for a long time in a small part of
// the table. Within that part it takes the oldest place first and not the newest: then
// consecutive steps do not depend on each other, and the processor works on several at once.
//
// s.order has both: the places that are peeled, and behind a gap those whose turn comes.
func (s *fuseSolver) peel(t *fuseTrailer) []uint32 {
	table, order, length := s.table, s.order, t.length
	peeled, end := 0, 0
	for start := 0; start < len(table); start += peelPlaces {
		for i, e := range table[start:min(start+peelPlaces, len(table))] {
			order[end] = uint32(start + i)
			if e>>countAt == 1 {
				end++
			}
		}
		for next := peeled; next < end; next++ {
			place := order[next]
			e := table[place]
			if e>>countAt != 1 { // peeled already, or with the key's other place
				continue
			}
			order[peeled] = place
			peeled++
			table[place] = e - oneKey
			which, x := e>>whichAt&3, e&hashMask
			one, other := otherPlaces(x, which, uint64(place), length)
			e = (table[one] ^ (x | (0b00_10_01>>(2*which)&3)<<whichAt)) - oneKey
			table[one] = e
			order[end] = uint32(one)
			if e>>countAt == 1 {
				end++
			}
			e = (table[other] ^ (x | (0b01_00_10>>(2*which)&3)<<whichAt)) - oneKey
			table[other] = e
			order[end] = uint32(other)
			if e>>countAt == 1 {
				end++
			}
		}
		end = peeled
	}
	return order[:peeled]
}

// otherPlaces returns the places of a key behind the one that which says: after the first the
// second and the third, after the second the third and the first, and so on. It has no branch,
// because which is random and a branch would be mispredicted.
func otherPlaces(x, which, place, length uint64) (one, other uint64) {
	first := firstPlace(x, which, place, length)
	second, third := fusePlaces(x, first, length)
	is1, is2 := -(which & 1), -(which >> 1)
	one = second ^ (second^third)&is1 ^ (second^first)&is2
	return one, first ^ second ^ third ^ place ^ one
}

// assign replaces the entries of the peeled places by fingerprints.
func (s *fuseSolver) assign(peeled []uint32, t *fuseTrailer) {
	table, length := s.table, t.length
	for _, place := range slices.Backward(peeled) {
		e := table[place]
		x := e & hashMask
		first := firstPlace(x, e>>whichAt, uint64(place), length)
		second, third := fusePlaces(x, first, length)
		// One of the three is place itself. Its entry goes in twice and cancels out,
		// and what is left of the key's own fingerprint is x >> 32.
		table[place] = (table[first] ^ table[second] ^ table[third] ^ x>>32) & 0xffff
	}
}

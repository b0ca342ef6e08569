package bloom

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// solver returns a solver with room for n keys, and the layout for them.
func solver(n int) (*fuseSolver, *fuseTrailer) {
	t := fuseLayout(n, 16)
	places := int((t.segments + 2) * t.length)
	return &fuseSolver{table: make([]uint64, places), order: make([]uint32, places+1)}, &t
}

// An entry has the number of its keys, and the xor of what is known of them: recounted here
// with a list of keys for each place.
func TestFuseSolver_Entries(t *testing.T) {
	const seed = 12345
	for _, n := range []int{1, 2, 30, 5000} {
		s, tr := solver(n)
		hs := filtertest.RandomHashes(uint64(n), n)
		want := make([]uint64, len(s.table))
		for _, h := range hs {
			x := form.Finish(h + seed)
			first, _ := bits.Mul64(x, tr.segments*tr.length)
			places := []uint64{first, (first + tr.length) ^ x>>18%tr.length, (first + 2*tr.length) ^ x%tr.length}
			for which, place := range places {
				count := want[place]>>countAt + 1
				rest := (want[place] ^ uint64(which)<<whichAt ^ x&hashMask) & (1<<countAt - 1)
				want[place] = count<<countAt | rest
			}
			for which, place := range places {
				one, other := otherPlaces(x&hashMask, uint64(which), place, tr.length)
				if first := firstPlace(x&hashMask, uint64(which), place, tr.length); first != places[0] ||
					one != places[(which+1)%3] || other != places[(which+2)%3] {
					t.Fatalf("from place %d of %d: the others are %d and %d, the first is %d", which, places, one, other, first)
				}
			}
		}
		// What the solver held before does not matter.
		for range 2 {
			if !s.fill(hs, seed, tr) || !slices.Equal(s.table, want) {
				t.Errorf("%d keys: the entries of fill are wrong", n)
			}
		}
		clear(s.table)
		if !s.fillSorted(hs, seed, tr) || !slices.Equal(s.table, want) {
			t.Errorf("%d keys: the entries of fillSorted are wrong", n)
		}
		if slices.Sort(s.sorted); n > 0 && !slices.Equal(s.sorted, mixed(hs, seed)) {
			t.Errorf("%d keys: fillSorted has other hashes", n)
		}
	}
}

// mixed returns the mixed hashes in ascending order.
func mixed(hashes []uint64, seed uint64) []uint64 {
	var xs []uint64
	for _, h := range hashes {
		xs = append(xs, form.Finish(h+seed))
	}
	slices.Sort(xs)
	return xs
}

// Every key is peeled once, at a place of its own, and when it is, no key that is left has
// that place. Places that are not peeled are zero in the end.
func TestFuseSolver_Peel(t *testing.T) {
	const n = 20000
	s, tr := solver(n)
	hs := filtertest.RandomHashes(1, n)
	seed := uint64(0)
	var peeled []uint32
	for len(peeled) < n {
		seed++
		s.fill(hs, seed, tr)
		peeled = s.peel(tr)
	}
	left := map[uint64][]uint64{} // the mixed hashes at each place
	placesOf := func(x uint64) [3]uint64 {
		first, _ := bits.Mul64(x, tr.segments*tr.length)
		second, third := fusePlaces(x, first, tr.length)
		return [3]uint64{first, second, third}
	}
	for _, x := range mixed(hs, seed) {
		for _, place := range placesOf(x) {
			left[place] = append(left[place], x)
		}
	}
	isPeeled := make([]bool, len(s.table))
	for i, place := range peeled {
		if len(left[uint64(place)]) != 1 || isPeeled[place] {
			t.Fatalf("step %d: place %d has %d keys, peeled %v", i, place, len(left[uint64(place)]), isPeeled[place])
		}
		isPeeled[place] = true
		x := left[uint64(place)][0]
		if s.table[place]&hashMask != x&hashMask || s.table[place]>>countAt != 0 {
			t.Fatalf("step %d: place %d has the entry %016x of key %016x", i, place, s.table[place], x)
		}
		for _, p := range placesOf(x) {
			left[p] = slices.DeleteFunc(left[p], func(y uint64) bool { return y == x })
		}
	}
	for place, e := range s.table {
		if !isPeeled[place] && e != 0 {
			t.Errorf("place %d is not peeled and has the entry %016x", place, e)
		}
	}
}

// A place counts up to 8191 keys. With more, the attempt fails at once: the number would run
// over at 16,384.
func TestFuseSolver_Crowded(t *testing.T) {
	one := filtertest.RandomHashes(2, 1)
	for _, c := range []struct {
		copies int
		want   bool
	}{{8191, true}, {8192, false}, {16384, false}, {16385, false}, {30000, false}} {
		s, tr := solver(c.copies)
		if got := s.fill(slices.Repeat(one, c.copies), 1, tr); got != c.want {
			t.Errorf("fill of %d equal hashes = %v, want %v", c.copies, got, c.want)
		}
		clear(s.table)
		if got := s.fillSorted(slices.Repeat(one, c.copies), 1, tr); c.want && !got {
			t.Errorf("fillSorted of %d equal hashes = %v, want %v", c.copies, got, c.want)
		}
		hs := append(filtertest.RandomHashes(3, 100), slices.Repeat(one, c.copies)...)
		checkFuseHolds(t, fuseOf(hs, 8), hs)
	}
}

// Most seeds do, so that building mostly takes one attempt.
func TestFuseSolver_Attempts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	tries, failed := 0, 0
	for ; tries < 1000; tries++ {
		n := int(math.Exp(3 + 7*r.Float64())) // 20 to 22,000 keys, evenly in the logarithm
		s, tr := solver(n)
		if s.fill(filtertest.RandomHashes(r.Uint64(), n), 0, tr); len(s.peel(tr)) != n {
			failed++
		}
	}
	if t.Logf("%d of %d seeds fail", failed, tries); failed > tries/10 {
		t.Errorf("%d of %d seeds fail, want at most a tenth", failed, tries)
	}
}

package bloom

import (
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// solver returns a solver with room for n keys, and the layout for them.
func solver(n int) (*fuseSolver, *fuseTrailer) {
	t := fuseLayout(n, 16)
	places := int((t.segments + 2) * t.length)
	return &fuseSolver{table: make([]uint64, places), order: make([]uint32, places+1)}, &t
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

package bloom

import (
	"math"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// The acceptance table of fuse filters: 2^-r, within 3 sigma, at every size.
func TestFPR_Fuse(t *testing.T) {
	testenv.SkipRace(t)
	seed, long := filtertest.Seed(t)
	sizes, share, sigmas := []int{1e3, 1e5, 1e6}, 1, 3.
	switch {
	case long:
		sigmas = 5 // of another seed each time
	case filtertest.Short():
		sizes, share = sizes[:2], 10
	}
	for _, n := range sizes {
		hs := filtertest.RandomHashes(seed, n)
		for _, r := range []int{4, 7, 8, 10, 12, 16} {
			asked := max(500_000, 64<<r) / share
			f := fuseOf(hs, r)
			rate, want := measure(f, seed+uint64(n+r), asked), FuseFPR(r)
			sigma := math.Sqrt(want * (1 - want) / float64(asked))
			t.Logf("%2d bits, %7d keys, %5.2f bits a key: measured %.5f %%, predicted %.5f ± %.5f %%", r, n, f.BitsPerKey(),
				100*rate, 100*want, 100*sigma)
			if math.Abs(rate-want) > sigmas*sigma {
				t.Errorf("%d bits, %d keys: %.5f %% pass, want %.5f ± %.5f %%", r, n, 100*rate, 100*want, 100*sigma)
			}
		}
	}
}

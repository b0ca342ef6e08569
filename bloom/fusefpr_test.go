package bloom

import (
	"math"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
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

// Keys of the kinds that programs have pass as rarely as random ones, under every hash
// function and in filters of both kinds.
func TestFPR_EveryHasher(t *testing.T) {
	seed, long := filtertest.Seed(t)
	n, asked, kinds := 3000, 30_000, testkeys.Made()
	switch {
	case long:
		n, asked = 50_000, 1_000_000
	case testenv.Race:
		n, asked, kinds = 100, 500, kinds[:3]
	case filtertest.Short():
		n, asked = 500, 5000
	}
	for i, kind := range kinds {
		present, absent := kind.Make(seed+uint64(i), n, asked)
		for _, hasher := range everyHasher() {
			stored := make([]uint64, len(present))
			for i, key := range present {
				stored[i] = hasher.Hash(key)
			}
			for _, o := range []StaticOptions{{Kind: KindBlocked, BitsPerKey: 8}, {Kind: KindFuse, BitsPerKey: FuseBits(len(present), 6)}} {
				o.Hasher = hasher
				s := staticOf(stored, o)
				passed := 0
				for _, key := range present {
					if !s.MayContainHash(hasher.Hash(key)) {
						t.Fatalf("%s, %v, %v: %q is denied", kind.Name, hasher.ID(), o.Kind, key)
					}
				}
				for _, key := range absent {
					if s.MayContainHash(hasher.Hash(key)) {
						passed++
					}
				}
				// The bits of one blocked filter differ from the mean by a
				// hundredth or two.
				want := s.FPR() * float64(len(absent))
				if math.Abs(float64(passed)-want) > 5*math.Sqrt(want)+0.04*want {
					t.Errorf("%s, %v with seed %d, %v: %d of %d pass, want %.0f", kind.Name, hasher.ID(),
						hasher.Seed(), o.Kind, passed, len(absent), want)
				}
			}
		}
	}
}

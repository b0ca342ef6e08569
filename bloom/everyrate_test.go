package bloom_test

import (
	"math"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/compat/bip37"
	"github.com/shaledb/shale/bloom/compat/bitsandblooms"
	"github.com/shaledb/shale/bloom/compat/guava"
	"github.com/shaledb/shale/bloom/compat/parquet"
	"github.com/shaledb/shale/bloom/compat/redisbloom"
	"github.com/shaledb/shale/bloom/sketch"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/testkeys"
)

// A rateSet is a filter of keys, with the rate that it says of itself.
type rateSet interface {
	bloom.Set
	FPR() float64
}

// filled makes a filter of each type that holds keys and makes mistakes. A type of
// TestEveryType that is missing here is one of exactly, below.
var filled = map[string]func(keys [][]byte) rateSet{
	"bloom.Filter":  func(keys [][]byte) rateSet { return adding(bloom.New(uint64(len(keys)), 0.01), keys) },
	"bloom.Blocked": func(keys [][]byte) rateSet { return get(bloom.OpenBlocked(bloom.AppendBlocked(nil, hashed(keys), 10))) },
	"bloom.Fuse":    func(keys [][]byte) rateSet { return get(bloom.OpenFuse(static(keys, bloom.KindFuse))) },
	"bloom.Static":  func(keys [][]byte) rateSet { return get(bloom.OpenStatic(static(keys, bloom.KindBlocked))) },
	"sketch.Counting": func(keys [][]byte) rateSet {
		return adding(get(sketch.NewCounting(sketch.CountingOptions{Keys: uint64(len(keys)), FPR: 0.01})), keys)
	},
	"sketch.Cuckoo": func(keys [][]byte) rateSet {
		return adding(get(sketch.NewCuckoo(sketch.CuckooOptions{Keys: uint64(len(keys))})), keys)
	},
	"sketch.Scalable": func(keys [][]byte) rateSet {
		return adding(get(sketch.NewScalable(sketch.ScalableOptions{Capacity: 1000})), keys)
	},
	"bip37.Filter": func(keys [][]byte) rateSet {
		return adding(get(bip37.New(bip37Keys, 0.01, 7, bip37.UpdateNone)), keys[:bip37Keys])
	},
	"bitsandblooms.Filter": func(keys [][]byte) rateSet { return adding(get(bitsandblooms.New(uint64(10*len(keys)), 7)), keys) },
	"guava.Filter":         func(keys [][]byte) rateSet { return adding(get(guava.New(uint64(len(keys)), 0.01)), keys) },
	"parquet.Filter":       func(keys [][]byte) rateSet { return adding(get(parquet.New(uint64(len(keys)), 0.01)), keys) },
	"redisbloom.Filter":    func(keys [][]byte) rateSet { return adding(get(redisbloom.New(uint64(len(keys)/4), 0.01)), keys) },
	"bloom.AtomicBlocked": func(keys [][]byte) rateSet {
		return adding(get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: uint64(len(keys)), BitsPerKey: 10})), keys)
	},
}

// bip37Keys is how many keys a filter of BIP 37 is made for: it has at most 36,000 bytes.
const bip37Keys = 2000

// notRated are the types that have no rate of their own, with the reason.
var notRated = map[string]string{
	"sketch.Bitset": "makes no mistakes", "bundle.Bundle": "has the rate of the filters in it",
	"sketch.Exact": "has the rate of the filter below", "guava.Of": "the same",
}

// adding adds keys to f and returns it.
func adding[F interface {
	rateSet
	bloom.Adder
}](f F, keys [][]byte) rateSet {
	must(f.AddKeys(keys))
	return f
}

func hashed(keys [][]byte) []uint64 {
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = bloom.Hash(key)
	}
	return hashes
}

func static(keys [][]byte, kind bloom.Kind) []byte {
	return get(bloom.AppendStatic(nil, hashed(keys), bloom.StaticOptions{Kind: kind, BitsPerKey: 10}))
}

// Every type lets as many absent keys pass as it says, within three standard deviations, with
// keys that nobody chose for the test: hosts, words and URLs. The hash functions and the lists
// are always the same, and so is the outcome.
func TestEveryType_Rate(t *testing.T) {
	testenv.SkipRace(t)
	for _, f := range every {
		if (filled[f.name] == nil) == (notRated[f.name] == "") {
			t.Errorf("%s is among the rated types and among the others, or nowhere", f.name)
		}
	}
	testenv.Shared(t, "data")
	const n, asked = 30_000, 200_000 // or as many as the lists have
	for i, kind := range testkeys.Listed(t) {
		keys, absent := kind.Make(uint64(i), n, asked)
		for name, fill := range filled {
			f := fill(keys)
			for _, key := range keys[:bip37Keys] {
				if !f.MayContain(key) {
					t.Fatalf("%s denies %q of %s", name, key, kind.Name)
				}
			}
			out := make([]bool, len(absent))
			f.MayContainKeys(absent, out)
			passed := 0
			for _, may := range out {
				if may {
					passed++
				}
			}
			p := f.FPR()
			mean := p * float64(len(absent))
			sigmas := (float64(passed) - mean) / math.Sqrt(mean*(1-p))
			t.Logf("%-26s %-22s %8.4f %% said %8.4f %% measured %6.2f sigmas", kind.Name, name, 100*p, 100*float64(passed)/float64(len(absent)), sigmas)
			if math.Abs(sigmas) > 3 || mean < 4 {
				t.Errorf("%s with %s: %d of %d pass, %.1f by its own rate: %.2f sigmas", name, kind.Name, passed, len(absent), mean, sigmas)
			}
		}
	}
}

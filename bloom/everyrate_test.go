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
	"bloom.Fuse":    func(keys [][]byte) rateSet { return get(bloom.OpenFuse(static(keys, bloom.KindFuse, 10))) },
	"bloom.Static":  func(keys [][]byte) rateSet { return get(bloom.OpenStatic(static(keys, bloom.KindBlocked, 16))) },
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
		return adding(get(bip37.New(bip37Keys, 0.01, 7, bip37.UpdateNone)), keys[:min(bip37Keys, len(keys))])
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

func static(keys [][]byte, kind bloom.Kind, bits float64) []byte {
	return get(bloom.AppendStatic(nil, hashed(keys), bloom.StaticOptions{Kind: kind, BitsPerKey: bits}))
}

// Every type lets as many absent keys pass as it says, within 3.5 standard deviations, with keys
// of every kind that programs have: numbers that count up, times, paths, and hosts, words and
// URLs that nobody chose for the test. The hash functions and the keys are always the same, and
// so is the outcome.
func TestEveryType_Rate(t *testing.T) {
	testenv.SkipRace(t)
	for _, f := range every {
		if (filled[f.name] == nil) == (notRated[f.name] == "") {
			t.Errorf("%s is among the rated types and among the others, or nowhere", f.name)
		}
	}
	n, asked := 30_000, 200_000 // or as many as there are
	if testing.Short() {
		n, asked = 10_000, 60_000
	}
	for i, kind := range append(testkeys.Made(), testkeys.Listed(t)...) {
		keys, absent := kind.Make(uint64(i), n, asked)
		for name, fill := range filled {
			f := fill(keys)
			for _, key := range keys[:min(bip37Keys, len(keys))] {
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
			if math.Abs(sigmas) > 3.5 {
				t.Errorf("%s with %s: %d of %d pass, %.1f by its own rate: %.2f sigmas", name, kind.Name, passed, len(absent), mean, sigmas)
			}
		}
	}
}

package sketch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Variables that keep the answers of benchmarks from being optimized away.
var (
	benchSink bool
	benchWord uint64
)

// questions returns 2^16 random hashes, which fit into the second-level cache.
func questions() []uint64 { return filtertest.RandomHashes(7, 1<<16) }

// question returns the i-th hash to ask. Each round has different hashes, so that the
// processor cannot learn the branches, and lines do not stay in a cache.
func question(hs []uint64, i int) uint64 {
	return hs[i&(len(hs)-1)] ^ uint64(i>>16)*0xd6e8feb86659fd93
}

// hasherOf returns a Hasher. It fails if there is none.
func hasherOf(id bloom.HashID, seed uint64) bloom.Hasher {
	return bloom.Must(bloom.NewHasher(id, seed))
}

// ownHash is a hash function of the caller's own.
func ownHash(key []byte) (uint64, uint64) {
	h1, h2 := bloom.Murmur3(key)
	return h2, h1
}

// filterOf makes a filter with n numbered keys, beginning with number first.
func filterOf(t testing.TB, o bloom.FilterOptions, first, n int) *bloom.Filter {
	t.Helper()
	f, err := bloom.NewFilter(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := first; i < first+n; i++ {
		f.Add(filtertest.Numbered(i))
	}
	return f
}

// keyHashes returns the hashes of n numbered keys.
func keyHashes(h bloom.Hasher, n int) []uint64 {
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = h.Hash(filtertest.Numbered(i))
	}
	return hs
}

// goldens calls add with the bytes of all golden files.
func goldens(f *testing.F, add func(b []byte)) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.filter")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden filters: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
		add(b[len(b)-form.TrailerLen:])
	}
	add([]byte{})
}

func countingFor(n uint64, p float64) *Counting {
	return bloom.Must(NewCounting(CountingOptions{Keys: n, FPR: p}))
}

func cuckooFor(n uint64) *Cuckoo { return bloom.Must(NewCuckoo(CuckooOptions{Keys: n})) }

func bitsetBelow(limit uint64) *Bitset { return bloom.Must(NewBitset(BitsetOptions{Limit: limit})) }

func exactOf(set bloom.Set, bytes int) *Exact {
	return bloom.Must(NewExact(set, ExactOptions{Bytes: bytes}))
}

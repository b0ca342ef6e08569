package bloom_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/compat/parquet"
	"github.com/shaledb/shale/internal/testenv"
)

// A manySet is a filter that answers many questions at once, with what a test needs of it: its hash as
// words, and a single question by hash.
type manySet struct {
	bloom.Set
	words int // of a hash
	many  func(hashes []uint64, out []bool)
	hash  func(key []byte) []uint64
	one   func(hash []uint64) bool
}

type set64 interface {
	bloom.Set
	MayContainHash(h uint64) bool
	MayContainMany(hashes []uint64, out []bool)
}

func manySet64(f set64, hash func(key []byte) uint64) manySet {
	return manySet{f, 1, f.MayContainMany, func(key []byte) []uint64 { return []uint64{hash(key)} }, func(h []uint64) bool { return f.MayContainHash(h[0]) }}
}

func manySet128(f *bloom.Filter) manySet {
	hash := func(key []byte) []uint64 { h1, h2 := f.Hash(key); return []uint64{h1, h2} }
	return manySet{f, 2, f.MayContainMany, hash, func(h []uint64) bool { return f.MayContainHash(h[0], h[1]) }}
}

// manySets returns a filter of each type, with the keys, and the zero value of each.
func manySets(t testing.TB, keys [][]byte) map[string]manySet {
	t.Helper()
	all := map[string]manySet{}
	n := uint64(max(len(keys), 1))
	for _, fpr := range []float64{0.3, 0.01, 1e-6} {
		f := get(bloom.NewFilter(bloom.FilterOptions{Keys: n, FPR: fpr}))
		check(t, f.AddKeys(keys))
		all[fmt.Sprint("Filter ", fpr)] = manySet128(f)
	}
	xxh3 := get(bloom.NewHasher(bloom.HashXXH3, 5))
	atomic := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: n, Hasher: xxh3}))
	check(t, atomic.AddKeys(keys))
	all["AtomicBlocked"] = manySet64(atomic, xxh3.Hash)
	p := get(parquet.New(n, 0.01))
	check(t, p.AddKeys(keys))
	all["parquet.Filter"] = manySet64(p, parquet.Hash)
	hashes, hashesX := make([]uint64, len(keys)), make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i], hashesX[i] = bloom.Hash(key), xxh3.Hash(key)
	}
	for _, bits := range []float64{5, 10, 13, 14, 20, 26} {
		f := get(bloom.OpenBlocked(bloom.AppendBlocked(nil, hashes, bits)))
		all[fmt.Sprint("Blocked ", bits)] = manySet64(f, bloom.Hash)
	}
	for _, kind := range []bloom.Kind{bloom.KindBlocked, bloom.KindFuse} {
		for _, bits := range []float64{6, 11, 20} {
			b := get(bloom.AppendStatic(nil, hashesX, bloom.StaticOptions{Kind: kind, BitsPerKey: bits, Hasher: xxh3}))
			all[fmt.Sprint("Static ", kind, bits)] = manySet64(get(bloom.OpenStatic(b)), xxh3.Hash)
		}
	}
	fuse := get(bloom.OpenFuse(get(bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: 11}))))
	all["Fuse"] = manySet64(fuse, bloom.Hash)
	all["zero Filter"] = manySet128(new(bloom.Filter))
	all["zero AtomicBlocked"] = manySet64(new(bloom.AtomicBlocked), bloom.Hash)
	all["zero Blocked"] = manySet64(new(bloom.Blocked), bloom.Hash)
	all["zero Fuse"] = manySet64(new(bloom.Fuse), bloom.Hash)
	all["zero Static"] = manySet64(new(bloom.Static), bloom.Hash)
	all["zero parquet.Filter"] = manySet64(new(parquet.Filter), parquet.Hash)
	return all
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func randomKeys(seed uint64, n int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 0))
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%0*d", 1+r.IntN(40), r.Uint64())
	}
	return keys
}

// Many questions, by hash or by key, have the answers of single ones. Answers without a question
// are maybe, and questions without an answer are not asked.
func TestMany_AnswersOfOne(t *testing.T) {
	for _, present := range []int{1, 30, 3000} {
		keys := randomKeys(1, present)
		for name, f := range manySets(t, keys) {
			for _, count := range []int{0, 1, 2, 15, 16, 17, 63, 64, 65, 129, 1000} {
				asked := append(randomKeys(uint64(count)+2, count/2), keys[:min(count-count/2, len(keys))]...)
				rand.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
				var hashes []uint64
				want := make([]bool, len(asked))
				for i, key := range asked {
					hashes = append(hashes, f.hash(key)...)
					want[i] = f.MayContain(key)
					if got := f.one(f.hash(key)); got != want[i] {
						t.Fatalf("%s: key %q: %v, by hash %v", name, key, want[i], got)
					}
				}
				for _, outs := range []int{len(asked), len(asked) / 2, len(asked) + 70} {
					answers := func(ask func(out []bool)) []bool {
						out := make([]bool, outs, outs+1)
						if ask(out); out[:outs+1][outs] {
							t.Fatalf("%s: an answer behind the end", name)
						}
						return out
					}
					want := append(slices.Clone(want), slices.Repeat([]bool{true}, 70)...)[:outs]
					if got := answers(func(out []bool) { f.many(hashes, out) }); !slices.Equal(got, want) {
						t.Fatalf("%s of %d keys: %d answers to %d hashes differ from single ones", name, present, outs, len(asked))
					}
					if got := answers(func(out []bool) { f.MayContainKeys(asked, out) }); !slices.Equal(got, want) {
						t.Fatalf("%s of %d keys: %d answers to %d keys differ from single ones", name, present, outs, len(asked))
					}
				}
			}
		}
	}
}

// Questions while others add, which the race detector watches. A key whose addition has returned is there.
func TestMany_WhileOthersAdd(t *testing.T) {
	f := get(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: 2000}))
	hashes := make([]uint64, 2000)
	for i := range hashes {
		hashes[i] = rand.Uint64()
	}
	added := make(chan int, len(hashes)/100)
	go func() {
		for i := 0; i < len(hashes); i += 100 {
			f.AddMany(hashes[i : i+100])
			added <- i + 100
		}
		close(added)
	}()
	out := make([]bool, len(hashes))
	for n := range added {
		f.MayContainMany(hashes, out)
		if i := slices.Index(out[:n], false); i >= 0 {
			t.Fatalf("hash %d was added before %d, and is denied", i, n)
		}
	}
}

func TestMany_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	keys := randomKeys(6, 100)
	out := make([]bool, 110)
	for name, f := range manySets(t, keys) {
		var hashes []uint64
		for _, key := range keys {
			hashes = append(hashes, f.hash(key)...)
		}
		if n := testing.AllocsPerRun(50, func() { f.many(hashes, out); f.MayContainKeys(keys, out) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

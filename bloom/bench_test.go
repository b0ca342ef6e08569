package bloom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// Variables that keep the answers from being optimized away.
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

// benchFilters builds filters of different random keys.
func benchFilters[F any](tables, keys int, build func(hashes []uint64) F) []F {
	fs := make([]F, tables)
	for i := range fs {
		fs[i] = build(filtertest.RandomHashes(uint64(100+i), keys))
	}
	return fs
}

func blockedOf(bits float64) func(hashes []uint64) *Blocked {
	return func(hashes []uint64) *Blocked { return mustOpen(AppendBlocked(nil, hashes, bits)) }
}

// stream asks one filter after the other, each time for a new absent key. The answers
// are independent of each other.
func stream[F asker](b *testing.B, name string, fs []F) {
	hs := questions()
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			benchSink = fs[i&(len(fs)-1)].MayContainHash(question(hs, i))
		}
	})
}

// many asks for 1024 hashes in one call. What it reports is for each of them.
func many(b *testing.B, name string, f *Blocked) {
	var hs [1024]uint64
	var out [1024]bool
	all := questions()
	next := 0
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			for i := range hs {
				hs[i] = question(all, next)
				next++
			}
			f.MayContainMany(hs[:], out[:])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(hs)), "ns/key")
	})
}

func BenchmarkMiss(b *testing.B) {
	const tables, keys = 16, 62500
	for _, bits := range []float64{10, 14, 24} {
		stream(b, fmt.Sprint("blocked", bits), benchFilters(tables, keys, blockedOf(bits)))
	}
	many(b, "blocked10/many", blockedOf(10)(filtertest.RandomHashes(100, tables*keys)))
	for _, r := range []int{7, 8, 16} {
		stream(b, fmt.Sprint("fuse", r), benchFilters(tables, keys, func(hs []uint64) *Fuse { return fuseOf(hs, r) }))
	}
}

// 50M keys, 62 MB of filters: each question waits for memory.
func BenchmarkMissOutOfCache(b *testing.B) {
	if testing.Short() {
		b.Skip("builds 50M keys")
	}
	const tables, keys = 64, 50e6 / 64
	stream(b, "blocked10", benchFilters(tables, keys, blockedOf(10)))
	one := benchFilters(1, tables*keys, blockedOf(10))
	stream(b, "blocked10/one", one)
	many(b, "blocked10/many", one[0])
	stream(b, "fuse8", benchFilters(tables, keys, func(hs []uint64) *Fuse { return fuseOf(hs, 8) }))
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1000, 62500, 1e6} {
		hs := filtertest.RandomHashes(3, n)
		for _, o := range []StaticOptions{{Kind: KindBlocked, BitsPerKey: 10}, {Kind: KindBlocked, BitsPerKey: 20}, {Kind: KindFuse, BitsPerKey: 10}} {
			b.Run(fmt.Sprintf("n=%d/%v%v", n, o.Kind, o.BitsPerKey), func(b *testing.B) {
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					buf = Must(AppendStatic(buf[:0], hs, o))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
			})
		}
	}
}

func BenchmarkHash(b *testing.B) {
	hashers := [...]Hasher{{}, hasherOf(HashXXH3, 1), hasherOf(HashSipHash, 1)}
	for _, n := range []int{8, 16, 32, 100, 1000} {
		key := fill(n)
		for _, h := range hashers {
			b.Run(fmt.Sprintf("%d/%v", n, h.ID()), func(b *testing.B) {
				for b.Loop() {
					benchWord = h.Hash(key)
				}
			})
		}
		b.Run(fmt.Sprintf("%d/spaolacci", n), func(b *testing.B) {
			for b.Loop() {
				benchWord = reference(key)
			}
		})
	}
}

func BenchmarkAtomic(b *testing.B) {
	const n = 600e3
	hs := filtertest.RandomHashes(11, n)
	for _, goroutines := range []int{1, 2} {
		o := AtomicBlockedOptions{Keys: n}
		atOnce := func(name string, o AtomicBlockedOptions, add func(f *AtomicBlocked, h uint64)) {
			b.Run(fmt.Sprintf("%s/goroutines=%d", name, goroutines), func(b *testing.B) {
				for b.Loop() {
					f := Must(NewAtomicBlocked(o))
					var wg sync.WaitGroup
					for part := range slices.Chunk(hs, len(hs)/goroutines) {
						wg.Go(func() {
							for _, h := range part {
								add(f, h)
							}
						})
					}
					wg.Wait()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
			})
		}
		atOnce("add", o, (*AtomicBlocked).AddHash)
		atOnce("checkandadd", o, func(f *AtomicBlocked, h uint64) { f.CheckAndAddHash(h) })
		o.Uncounted = true
		atOnce("uncounted", o, (*AtomicBlocked).AddHash)
	}
	f := atomicOf(n, 10)
	f.AddMany(hs)
	stream(b, "miss", []*AtomicBlocked{f})
}

func BenchmarkFilter(b *testing.B) {
	const turns = 1 << 16
	keys := filtertest.BenchKeys(2 * turns)
	present, absent := keys[:turns], keys[turns:]
	for _, n := range []int{62_500, 1_000_000, 50_000_000} {
		if n > 1e6 && testing.Short() {
			continue
		}
		f := New(uint64(n), 0.01)
		r := rand.New(rand.NewPCG(12, 0))
		for range n - turns {
			f.AddHash(r.Uint64(), r.Uint64())
		}
		if err := f.AddKeys(present); err != nil {
			b.Fatal(err)
		}
		each := func(name string, keys [][]byte, do func(key []byte) bool) {
			b.Run(fmt.Sprintf("%s/%dk", name, n/1000), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					benchSink = do(keys[i%turns])
				}
			})
		}
		each("miss", absent, f.MayContain)
		each("hit", present, f.MayContain)
		c := f.Clone()
		each("add", present, func(key []byte) bool { return c.Add(key) == nil })
	}
}

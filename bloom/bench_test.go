package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dchest/siphash"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/zeebo/xxh3"
)

// The questions of the benchmarks, and variables that keep the answers from being
// optimized away.
var (
	benchSink  bool
	benchTouch byte
	benchWord  uint64
)

// questions returns 2^16 random hashes, which fit into the second-level cache.
func questions() []uint64 { return filtertest.RandomHashes(7, 1<<16) }

// question returns the i-th hash to ask. Each round has different hashes, so that the
// processor cannot learn the branches, and lines do not stay in a cache.
func question(hs []uint64, i int) uint64 {
	return hs[i&(len(hs)-1)] ^ uint64(i>>16)*0xd6e8feb86659fd93
}

// benchFilters builds filters of different random keys.
func benchFilters(tables, keys int, bits float64) []*Blocked {
	fs := make([]*Blocked, tables)
	for i := range fs {
		fs[i] = mustOpen(AppendBlocked(nil, filtertest.RandomHashes(uint64(100+i), keys), bits))
	}
	return fs
}

type asker interface{ MayContainHash(h uint64) bool }

// stream asks one filter after the other, each time for a new absent key. The answers
// are independent of each other.
func stream[F asker](b *testing.B, fs []F) {
	hs := questions()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		benchSink = fs[i&(len(fs)-1)].MayContainHash(question(hs, i))
		i++
	}
}

// serial puts an atomic addition between the questions, which no later load passes. So it
// measures the full latency of a question, plus about 5 ns.
func serial[F asker](b *testing.B, fs []F) {
	hs := questions()
	var fence atomic.Uint64
	i := 0
	for b.Loop() {
		h := question(hs, i)
		if fs[i&(len(fs)-1)].MayContainHash(h ^ fence.Add(0)) {
			benchTouch++
		}
		i++
	}
}

// many asks for 1024 hashes in one call. What it reports is for each of them.
func many(b *testing.B, f *Blocked) {
	var hs [1024]uint64
	var out [1024]bool
	all := questions()
	next := 0
	for b.Loop() {
		for i := range hs {
			hs[i] = question(all, next)
			next++
		}
		f.MayContainMany(hs[:], out[:])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(hs)), "ns/key")
}

func BenchmarkMiss(b *testing.B) {
	const tables, keys = 16, 62500
	b.Run("blocked10/small/stream", func(b *testing.B) { stream(b, benchFilters(1, 12500, 10)) })
	b.Run("blocked10/stream", func(b *testing.B) { stream(b, benchFilters(tables, keys, 10)) })
	b.Run("line32/stream", func(b *testing.B) { stream(b, peers(tables, keys, newLine32)) })
	b.Run("classic/stream", func(b *testing.B) { stream(b, peers(tables, keys, newClassic)) })
	b.Run("blocked10/many", func(b *testing.B) { many(b, benchFilters(1, tables*keys, 10)[0]) })
	b.Run("blocked14/stream", func(b *testing.B) { stream(b, benchFilters(tables, keys, 14)) })
	b.Run("blocked24/stream", func(b *testing.B) { stream(b, benchFilters(tables, keys, 24)) })
	b.Run("fence", func(b *testing.B) { serial(b, make([]nothing, tables)) })
	b.Run("blocked10/serial", func(b *testing.B) { serial(b, benchFilters(tables, keys, 10)) })
	b.Run("line32/serial", func(b *testing.B) { serial(b, peers(tables, keys, newLine32)) })
	b.Run("classic/serial", func(b *testing.B) { serial(b, peers(tables, keys, newClassic)) })
}

type nothing struct{}

func (nothing) MayContainHash(h uint64) bool { return h == 0 }

// 50M keys, 62 MB of filters: each question waits for memory.
func BenchmarkMissOutOfCache(b *testing.B) {
	if testing.Short() {
		b.Skip("builds 50M keys")
	}
	const tables, keys = 64, 50e6 / 64
	b.Run("blocked10", func(b *testing.B) { stream(b, benchFilters(tables, keys, 10)) })
	b.Run("blocked10/one", func(b *testing.B) { stream(b, benchFilters(1, tables*keys, 10)) })
	b.Run("blocked10/many", func(b *testing.B) { many(b, benchFilters(1, tables*keys, 10)[0]) })
	b.Run("line32", func(b *testing.B) { stream(b, peers(tables, keys, newLine32)) })
	b.Run("classic", func(b *testing.B) { stream(b, peers(tables, keys, newClassic)) })
}

func BenchmarkHit(b *testing.B) {
	for _, bits := range []float64{10, 24} {
		b.Run(fmt.Sprint(bits), func(b *testing.B) {
			hs := filtertest.RandomHashes(5, 1<<16)
			f := mustOpen(AppendBlocked(nil, hs, bits))
			i := 0
			for b.Loop() {
				benchSink = f.MayContainHash(hs[i&(len(hs)-1)])
				i++
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{62500, 1e6} {
		hs := filtertest.RandomHashes(3, n)
		for _, bits := range []float64{10, 20, 24} {
			b.Run(fmt.Sprintf("n=%d/bits=%v", n, bits), func(b *testing.B) {
				buf := make([]byte, 0, BlockedSize(n, bits))
				b.ReportAllocs()
				for b.Loop() {
					buf = AppendBlocked(buf[:0], hs, bits)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	buf := AppendBlocked(nil, filtertest.RandomHashes(3, 1e6), 10)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		mustOpen(buf)
	}
}

// Throughput, then latency: each key depends on the hash before.
func BenchmarkHash(b *testing.B) {
	hashers := [...]Hasher{{}, hasherOf(HashXXH3, 1), hasherOf(HashSipHash, 1)}
	for _, n := range []int{8, 16, 20, 32, 100, 1000} {
		key := fill(n)
		for _, fn := range []struct {
			name string
			hash func([]byte) uint64
		}{
			{"own", Hash},
			{"spaolacci", reference},
			{"hasher-murmur3", func(key []byte) uint64 { return hashers[0].Hash(key) }},
			{"hasher-xxh3", func(key []byte) uint64 { return hashers[1].Hash(key) }},
			{"zeebo-xxh3", func(key []byte) uint64 { return xxh3.HashSeed(key, 1) }},
			{"hasher-siphash13", func(key []byte) uint64 { return hashers[2].Hash(key) }},
			{"dchest-siphash24", func(key []byte) uint64 { return siphash.Hash(1, 2, key) }},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, fn.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					benchWord = fn.hash(key)
				}
			})
			b.Run(fmt.Sprintf("%d/%s/latency", n, fn.name), func(b *testing.B) {
				for b.Loop() {
					binary.LittleEndian.PutUint64(key, fn.hash(key))
				}
			})
		}
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
	full := atomicOf(n, 10)
	full.AddMany(hs)
	b.Run("checkandadd/held", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			benchSink = full.CheckAndAddHash(hs[i%len(hs)])
		}
	})
	f := atomicOf(n, 10)
	for _, h := range hs {
		f.AddHash(h)
	}
	b.Run("miss", func(b *testing.B) { stream(b, []*AtomicBlocked{f}) })
	b.Run("fence", func(b *testing.B) { serial(b, make([]nothing, 1)) })
	b.Run("miss/serial", func(b *testing.B) { serial(b, []*AtomicBlocked{f}) })
}

func BenchmarkPredict(b *testing.B) {
	f := mustOpen(AppendBlocked(nil, filtertest.RandomHashes(3, 1e5), 20))
	b.Run("filter", func(b *testing.B) {
		for b.Loop() {
			f.FPR()
		}
	})
	b.Run("bits", func(b *testing.B) {
		for b.Loop() {
			BitsForFPR(0.001)
		}
	})
}

// peers builds filters of another design for comparison.
func peers[F asker](tables, keys int, build func([]uint64) F) []F {
	fs := make([]F, tables)
	for i := range fs {
		fs[i] = build(filtertest.RandomHashes(uint64(100+i), keys))
	}
	return fs
}

// classic is the filter of textbooks: k bits anywhere, by double hashing, with a
// division for each position.
type classic struct {
	bits []uint64
	m    uint64
	k    int
}

func newClassic(hashes []uint64) *classic {
	f := &classic{m: uint64(len(hashes)) * 10, k: 7}
	f.bits = make([]uint64, (f.m+63)/64)
	for _, h := range hashes {
		step := h>>32 | 1
		for range f.k {
			i := h % f.m
			f.bits[i>>6] |= 1 << (i & 63)
			h += step
		}
	}
	return f
}

func (f *classic) MayContainHash(h uint64) bool {
	step := h>>32 | 1
	for range f.k {
		i := h % f.m
		if f.bits[i>>6]>>(i&63)&1 == 0 {
			return false
		}
		h += step
	}
	return true
}

// line32 is the design of several stores: 32 bits of hash modulo the number of lines choose
// a cache line, and steps of a rotated hash choose the bits in it.
type line32 struct {
	bytes []byte
	lines uint32
}

func newLine32(hashes []uint64) *line32 {
	lines := uint32(math.Ceil(float64(len(hashes))*10/512)) | 1
	f := &line32{bytes: make([]byte, lines*64), lines: lines}
	for _, h := range hashes {
		h := uint32(h)
		step, line := h>>17|h<<15, h%f.lines*64
		for range 6 {
			f.bytes[line+h&511>>3] |= 1 << (h & 7)
			h += step
		}
	}
	return f
}

func (f *line32) MayContainHash(hash uint64) bool {
	h := uint32(hash)
	step, line := h>>17|h<<15, h%f.lines*64
	for range 6 {
		if f.bytes[line+h&511>>3]>>(h&7)&1 == 0 {
			return false
		}
		h += step
	}
	return true
}

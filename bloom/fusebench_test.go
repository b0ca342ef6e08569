package bloom

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// fuseOf returns a fuse filter with fingerprints of r bits.
func fuseOf(hashes []uint64, r int) *Fuse {
	b, err := new(fuseSolver).appendFuse(nil, hashes, r, Hasher{}, fuseAttempts)
	if err != nil {
		panic(err)
	}
	f, err := OpenFuse(b)
	if err != nil {
		panic(err)
	}
	return f
}

func staticOf(hashes []uint64, o StaticOptions) *Static { return mustOpenStatic(mustAppend(hashes, o)) }

func BenchmarkFuseMiss(b *testing.B) {
	const tables, keys = 16, 62500
	blocked := func(hs []uint64) *Static { return staticOf(hs, StaticOptions{BitsPerKey: 10}) }
	fuse := func(hs []uint64) *Static { return staticOf(hs, StaticOptions{Kind: KindFuse, BitsPerKey: 10}) }
	b.Run("blocked10", func(b *testing.B) { stream(b, benchFilters(tables, keys, 10)) })
	b.Run("blocked10/static", func(b *testing.B) { stream(b, peers(tables, keys, blocked)) })
	for _, r := range []int{4, 7, 8, 12, 16} {
		b.Run(fmt.Sprint("fuse", r), func(b *testing.B) {
			stream(b, peers(tables, keys, func(hs []uint64) *Fuse { return fuseOf(hs, r) }))
		})
	}
	b.Run("fuse8/static", func(b *testing.B) { stream(b, peers(tables, keys, fuse)) })
	b.Run("fence", func(b *testing.B) { serial(b, make([]nothing, tables)) })
	b.Run("blocked10/serial", func(b *testing.B) { serial(b, benchFilters(tables, keys, 10)) })
	b.Run("fuse8/serial", func(b *testing.B) {
		serial(b, peers(tables, keys, func(hs []uint64) *Fuse { return fuseOf(hs, 8) }))
	})
}

// 50M keys: each question waits for memory.
func BenchmarkFuseMissOutOfCache(b *testing.B) {
	if testing.Short() {
		b.Skip("builds 50M keys")
	}
	const tables, keys = 64, 50e6 / 64
	b.Run("blocked10", func(b *testing.B) { stream(b, benchFilters(tables, keys, 10)) })
	b.Run("fuse8", func(b *testing.B) {
		stream(b, peers(tables, keys, func(hs []uint64) *Fuse { return fuseOf(hs, 8) }))
	})
}

func BenchmarkFuseHit(b *testing.B) {
	hs := filtertest.RandomHashes(5, 1<<16)
	hit := func(f asker) func(b *testing.B) {
		return func(b *testing.B) {
			i := 0
			for b.Loop() {
				benchSink = f.MayContainHash(hs[i&(len(hs)-1)])
				i++
			}
		}
	}
	b.Run("blocked10", hit(mustOpen(AppendBlocked(nil, hs, 10))))
	b.Run("fuse8", hit(fuseOf(hs, 8)))
	b.Run("fuse16", hit(fuseOf(hs, 16)))
}

func BenchmarkFuseBuild(b *testing.B) {
	for _, n := range []int{1000, 62500, 1e6} {
		hs := filtertest.RandomHashes(3, n)
		for _, o := range []StaticOptions{{Kind: KindBlocked, BitsPerKey: 10}, {Kind: KindFuse, BitsPerKey: 10}, {Kind: KindFuse, BitsPerKey: 20}} {
			b.Run(fmt.Sprintf("n=%d/%v%v", n, o.Kind, o.BitsPerKey), func(b *testing.B) {
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if buf, err = AppendStatic(buf[:0], hs, o); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
			})
		}
	}
}

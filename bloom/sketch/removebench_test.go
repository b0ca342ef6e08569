package sketch

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// A filter of 50,000 keys fits into the second-level cache, and one of 10 million does not.
// Each fills a filter to what it was made for, and then begins again.
func BenchmarkRemovers(b *testing.B) {
	for _, n := range []int{50_000, 10_000_000} {
		if n > 1e6 && testing.Short() {
			continue
		}
		hs := filtertest.RandomHashes(11, n)
		for _, kind := range removers {
			if kind.name != "counting, 40 bits" && kind.name != "cuckoo, 12 bits" {
				continue
			}
			f := kind.make(n)
			each := func(name string, do func(h uint64) bool, undo func(h uint64) bool) {
				b.Run(fmt.Sprintf("%s/%d/%s", kind.name, n, name), func(b *testing.B) {
					b.ReportAllocs()
					for done := 0; done < b.N; {
						part := hs[:min(len(hs), b.N-done)]
						for _, h := range part {
							benchSink = do(h)
						}
						done += len(part)
						b.StopTimer()
						for _, h := range part {
							benchSink = undo(h)
						}
						b.StartTimer()
					}
				})
			}
			add := func(h uint64) bool { return f.AddHash(h) == nil }
			nothing := func(uint64) bool { return true }
			each("add", add, f.RemoveHash)
			for _, h := range hs {
				add(h)
			}
			each("remove", f.RemoveHash, add)
			each("hit", f.MayContainHash, nothing)
			absent, i := questions(), 0
			each("miss", func(uint64) bool { i++; return f.MayContainHash(question(absent, i)) }, nothing)
			each("replace", func(h uint64) bool { return f.RemoveHash(h) && f.AddHash(h+1) == nil },
				func(h uint64) bool { return f.RemoveHash(h+1) && f.AddHash(h) == nil })
		}
	}
}

func BenchmarkBitset(b *testing.B) {
	for _, n := range []uint64{1 << 20, 1 << 30} {
		s, hs := bitsetBelow(n), questions()
		if err := s.Grow(n); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d/set", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				benchSink = s.Set(question(hs, i)&(n-1)) == nil
			}
		})
		b.Run(fmt.Sprintf("%d/has", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				benchSink = s.Has(question(hs, i) & (n - 1))
			}
		})
		b.Run(fmt.Sprintf("%d/clear", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				benchSink = s.Clear(question(hs, i) & (n - 1))
			}
		})
	}
	s := bitsetBelow(0)
	for i := range uint64(1 << 20) {
		if err := s.Set(i); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			for i := range s.All() {
				benchWord += i
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Count()), "ns/member")
	})
}

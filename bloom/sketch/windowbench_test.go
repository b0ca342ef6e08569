package sketch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// BenchmarkWindow asks and adds, with 1, 8 and 30 generations, in cache and out of it. For
// comparison it asks as many separate filters of the same rate, one after the other.
func BenchmarkWindow(b *testing.B) {
	for _, keys := range []int{20_000, 8_000_000} {
		present := filtertest.RandomHashes(1, keys)
		for _, generations := range []int{1, 8, 30} {
			n := uint64(keys / generations)
			w := windowOf(b, WindowOptions{Keys: uint64(keys), Generations: generations})
			var separate []*bloom.Filter
			for i := range generations + 1 {
				f, err := bloom.NewFilter(bloom.FilterOptions{Keys: n, FPR: bloom.DefaultFPR / float64(generations+1)})
				if err != nil {
					b.Fatal(err)
				}
				for j := range n {
					h := present[(uint64(i)*n+j)%uint64(keys)]
					f.AddHash(h, h*0x9e3779b97f4a7c15)
				}
				separate = append(separate, f)
			}
			w.AddMany(present)
			w.AddMany(present[:n])
			r := rand.New(rand.NewPCG(2, 0))
			name := func(what string) string { return fmt.Sprintf("%s/keys=%d/generations=%d", what, keys, generations) }
			b.Run(name("absent"), func(b *testing.B) {
				for b.Loop() {
					benchSink = w.MayContainHash(r.Uint64())
				}
			})
			b.Run(name("present"), func(b *testing.B) {
				for b.Loop() {
					benchSink = w.MayContainHash(present[r.Uint32N(uint32(keys))])
				}
			})
			b.Run(name("add"), func(b *testing.B) {
				c := w.Clone()
				for b.Loop() {
					c.AddHash(r.Uint64())
				}
			})
			b.Run(name("separate-absent"), func(b *testing.B) {
				for b.Loop() {
					h := r.Uint64()
					benchSink = false
					for i := len(separate) - 1; i >= 0 && !benchSink; i-- {
						benchSink = separate[i].MayContainHash(h, h*0x9e3779b97f4a7c15)
					}
				}
			})
		}
	}
	w := windowOf(b, WindowOptions{Age: time.Hour, Keys: 20_000})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			benchSink = w.MayContainHash(1)
		}
	})
}

package sketch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

func BenchmarkScalable(b *testing.B) {
	const turns = 1 << 16
	keys := filtertest.BenchKeys(turns)
	for _, growths := range []int{0, 3} {
		s, err := NewScalable(ScalableOptions{Capacity: 62_500 / (1<<(growths+1) - 1)})
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(12, 0))
		for s.Count() < 62_500-10 {
			if err := s.AddHash(r.Uint64(), r.Uint64()); err != nil {
				b.Fatal(err)
			}
		}
		i := 0
		b.Run(fmt.Sprint("miss/layers-", s.Info().Filters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.MayContain(keys[i%turns])
				i++
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		s, err := NewScalable(ScalableOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(13, 0))
		for b.Loop() {
			if err := s.AddHash(r.Uint64(), r.Uint64()); err != nil {
				b.Fatal(err)
			}
			if s.Count() == 1_000_000 {
				s.Reset()
			}
		}
	})
}

func BenchmarkExact(b *testing.B) {
	e := exactOf(everything, 64<<10)
	keys := filtertest.BenchKeys(100)
	for _, key := range keys {
		e.Absent(key, e.Since(key))
	}
	i := 0
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.MayContain(keys[i%100])
			i++
		}
	})
}

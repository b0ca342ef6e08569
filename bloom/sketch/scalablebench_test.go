package sketch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// Adding and asking allocate nothing.
func TestSketches_AllocateNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	number := uint64(0)
	next := func() uint64 { number++; return number }
	s := scalableOf(t, 1000, 0.01, ScalableOptions{}, 1500)
	long := fmt.Sprint("a string that is longer than what the compiler keeps on the stack ", number)
	filtertest.CountAllocs(t, "Scalable.Has", func() { var b [16]byte; filtertest.Digits(b[:], next()); s.MayContain(b[:]) })
	filtertest.CountAllocs(t, "Scalable.HasString", func() { s.MayContainString(long) })
	filtertest.CountAllocs(t, "Scalable.Add", func() {
		var b [16]byte
		filtertest.Digits(b[:], next())
		if err := s.Add(b[:]); err != nil {
			t.Fatal(err)
		}
	})
	e, asked := exactOf(bloom.New(10, 0.01), 1000), filtertest.Numbered(1)
	filtertest.CountAllocs(t, "Exact.MayContain", func() { e.MayContain(asked) })
}

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

package bloom

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// countAllocs fails if fn allocates.
func countAllocs(t *testing.T, name string, fn func()) {
	t.Helper()
	if n := testing.AllocsPerRun(200, fn); n != 0 {
		t.Errorf("%s allocates %v times", name, n)
	}
}

// Adding and asking allocate nothing, also for keys that the caller has made on the stack.
func TestFilter_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	number := uint64(0)
	next := func() uint64 { number++; return number }
	for _, o := range everyFilter() {
		f := filterOf(t, o, 0, 100)
		name := fmt.Sprintf("hash %v, ", f.hash.id())
		long := fmt.Sprint("a string that is longer than what the compiler keeps on the stack ", number)
		countAllocs(t, name+"Add", func() { var b [16]byte; digits(b[:], next()); f.Add(b[:]) })
		countAllocs(t, name+"MayContain", func() { var b [16]byte; digits(b[:], next()); f.MayContain(b[:]) })
		countAllocs(t, name+"Check", func() { var b [16]byte; digits(b[:], next()); f.Check(b[:]) })
		countAllocs(t, name+"CheckAndAdd", func() { var b [16]byte; digits(b[:], next()); f.CheckAndAdd(b[:]) })
		countAllocs(t, name+"AddString", func() { f.AddString(long) })
		countAllocs(t, name+"CheckString", func() { f.CheckString(long) })
	}
	s := scalableOf(t, 1000, 0.01, ScalableOptions{}, 1500)
	long := fmt.Sprint("a string that is longer than what the compiler keeps on the stack ", number)
	countAllocs(t, "Scalable.Has", func() { var b [16]byte; digits(b[:], next()); s.Has(b[:]) })
	countAllocs(t, "Scalable.HasString", func() { s.HasString(long) })
	countAllocs(t, "Scalable.Add", func() {
		var b [16]byte
		digits(b[:], next())
		if _, err := s.Add(b[:]); err != nil {
			t.Fatal(err)
		}
	})
	v := visits(2)[1]
	for _, f := range []Asker{New(1000, 0.01), s} {
		of := NewOf(f, funnelVisit)
		countAllocs(t, "Of.MayContain", func() { v.user++; of.MayContain(v) })
		countAllocs(t, "Of.Add", func() {
			v.user++
			if err := of.Add(v); err != nil {
				t.Fatal(err)
			}
		})
	}
	e, asked := NewExact(New(10, 0.01), 1000), numbered(1)
	countAllocs(t, "Exact.MayContain", func() { e.MayContain(asked) })
}

// benchKeys are the keys of 16 bytes that benchmarks use in turn.
func benchKeys(n int) [][]byte {
	keys, all := make([][]byte, n), make([]byte, 16*n)
	r := rand.New(rand.NewPCG(11, 0))
	for i := range keys {
		keys[i] = all[16*i : 16*i+16]
		digits(keys[i], r.Uint64())
	}
	return keys
}

var benchSizes = []int{62_500, 1_000_000, 50_000_000}

func sizeName(n int) string { return fmt.Sprintf("%dk", n/1000) }

func BenchmarkFilter(b *testing.B) {
	const turns = 1 << 16
	present, absent := benchKeys(2 * turns)[:turns], benchKeys(2 * turns)[turns:]
	for _, n := range benchSizes {
		f := New(uint64(n), 0.01)
		r := rand.New(rand.NewPCG(12, 0))
		for range n - turns {
			f.AddHash(r.Uint64(), r.Uint64())
		}
		for _, key := range present {
			f.Add(key)
		}
		i, hits := 0, 0
		b.Run("miss/"+sizeName(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if f.MayContain(absent[i%turns]) {
					hits++
				}
				i++
			}
		})
		b.Run("hit/"+sizeName(n), func(b *testing.B) {
			for b.Loop() {
				if f.MayContain(present[i%turns]) {
					hits++
				}
				i++
			}
		})
		b.Run("add/"+sizeName(n), func(b *testing.B) {
			c := f.Clone()
			b.ReportAllocs()
			for b.Loop() {
				c.Add(present[i%turns])
				i++
			}
		})
		b.Run("miss-hash-given/"+sizeName(n), func(b *testing.B) {
			for b.Loop() {
				if f.MayContainHash(r.Uint64(), r.Uint64()) {
					hits++
				}
			}
		})
	}
}

func BenchmarkFilter_Hashes(b *testing.B) {
	const turns = 1 << 16
	keys := benchKeys(turns)
	for _, o := range []FilterOptions{{}, {Hasher: hasherOf(HashXXH3, 1)}, {Hasher: hasherOf(HashSipHash, 1)}, ownOptions(200)} {
		o.Keys = 62_500
		f, err := NewFilter(o)
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(12, 0))
		for range o.Keys {
			f.AddHash(r.Uint64(), r.Uint64())
		}
		i := 0
		b.Run(fmt.Sprint("miss-of-hash-", int(f.hash.id())), func(b *testing.B) {
			for b.Loop() {
				f.MayContain(keys[i%turns])
				i++
			}
		})
	}
}

func BenchmarkScalable(b *testing.B) {
	const turns = 1 << 16
	keys := benchKeys(turns)
	for _, growths := range []int{0, 3} {
		s, err := NewScalable(62_500/(1<<(growths+1)-1), 0.01, ScalableOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(12, 0))
		for s.Count() < 62_500-10 {
			if _, err := s.AddHash(r.Uint64(), r.Uint64()); err != nil {
				b.Fatal(err)
			}
		}
		i := 0
		b.Run(fmt.Sprint("miss/layers-", s.Info().Filters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Has(keys[i%turns])
				i++
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		s, err := NewScalable(1000, 0.01, ScalableOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(13, 0))
		for b.Loop() {
			if _, err := s.AddHash(r.Uint64(), r.Uint64()); err != nil {
				b.Fatal(err)
			}
			if s.Count() == 1_000_000 {
				s.Reset()
			}
		}
	})
}

func BenchmarkOf(b *testing.B) {
	all := visits(1 << 12)
	o := NewOf(New(62_500, 0.01), funnelVisit)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		o.MayContain(all[i&(1<<12-1)])
		i++
	}
}

func BenchmarkExact(b *testing.B) {
	e := NewExact(everything, 64<<10)
	keys := benchKeys(100)
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

package bloom

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/internal/testenv"
)

// Adding and asking allocate nothing, also for keys that the caller has made on the stack.
func TestFilter_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	number := uint64(0)
	next := func() uint64 { number++; return number }
	for _, o := range everyFilter() {
		f := filterOf(t, o, 0, 100)
		name := fmt.Sprintf("hash %v, ", f.hash.ID())
		long := fmt.Sprint("a string that is longer than what the compiler keeps on the stack ", number)
		filtertest.CountAllocs(t, name+"Add", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.Add(b[:]) })
		filtertest.CountAllocs(t, name+"MayContain", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.MayContain(b[:]) })
		filtertest.CountAllocs(t, name+"Check", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.MayContain(b[:]) })
		filtertest.CountAllocs(t, name+"CheckAndAdd", func() { var b [16]byte; filtertest.Digits(b[:], next()); f.CheckAndAdd(b[:]) })
		filtertest.CountAllocs(t, name+"AddString", func() { f.AddString(long) })
		filtertest.CountAllocs(t, name+"CheckString", func() { f.MayContainString(long) })
	}
}

var benchSizes = []int{62_500, 1_000_000, 50_000_000}

func sizeName(n int) string { return fmt.Sprintf("%dk", n/1000) }

func BenchmarkFilter(b *testing.B) {
	const turns = 1 << 16
	present, absent := filtertest.BenchKeys(2 * turns)[:turns], filtertest.BenchKeys(2 * turns)[turns:]
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
	keys := filtertest.BenchKeys(turns)
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
		b.Run(fmt.Sprint("miss-of-hash-", int(f.hash.ID())), func(b *testing.B) {
			for b.Loop() {
				f.MayContain(keys[i%turns])
				i++
			}
		})
	}
}

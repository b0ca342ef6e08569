package sketch

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// benchAsks asks a filter for the hashes, one after the other.
func benchAsks(b *testing.B, f remover, hs []uint64, fresh bool) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		h := hs[i&(len(hs)-1)]
		if fresh {
			h = question(hs, i)
		}
		benchSink = f.MayContainHash(h)
		i++
	}
}

// A filter of 50,000 keys fits into the second-level cache, and one of 10 million does not.
// Additions fill a filter to what it was made for, and then begin again.
func BenchmarkRemovers(b *testing.B) {
	for _, n := range []int{50_000, 1_000_000, 10_000_000} {
		if n > 1e6 && testing.Short() {
			continue
		}
		hs := filtertest.RandomHashes(11, n)
		// The hits are of a power of two, and drawn over the whole filter.
		hits := hs[:1<<15]
		if n > 1e6 {
			hits = hs[:1<<23]
		}
		for _, kind := range removers {
			if kind.name == "counting, 16 bits" || kind.name == "counting, 0.1 %" || kind.name == "counting, 1 %" {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				f := kind.make(n)
				benchAddRemove(b, f, hs)
				for _, h := range hs {
					if f.AddHash(h) != nil {
						b.Fatal("full")
					}
				}
				b.Run("hit", func(b *testing.B) { benchAsks(b, f, hits, false) })
				b.Run("miss", func(b *testing.B) { benchAsks(b, f, questions(), true) })
				b.Run("replace", func(b *testing.B) { benchReplace(b, f, hs) })
			})
		}
	}
}

// A million keys of 16 bytes, hashing included, with filters of other modules to compare.
func BenchmarkRemoverKeys(b *testing.B) {
	const n = 1_000_000
	keys, others := sixteenBytes(1, n), sixteenBytes(2, n)
	counting, cuckoo := countingFor(n, 0.01), cuckooFor(n)
	for _, f := range []struct {
		name           string
		add, ask, drop func(key []byte) bool
	}{
		{"counting", func(key []byte) bool { counting.Add(key); return true }, counting.MayContain, counting.Remove},
		{"cuckoo", func(key []byte) bool { return cuckoo.Add(key) == nil }, cuckoo.MayContain, cuckoo.Remove},
	} {
		each := func(name string, keys [][]byte, fn func(key []byte) bool) {
			b.Run(f.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					for _, key := range keys {
						benchSink = fn(key)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
			})
		}
		b.Run(f.name+"/fill+empty", func(b *testing.B) {
			for b.Loop() {
				for _, key := range keys {
					benchSink = f.add(key)
				}
				for _, key := range keys {
					benchSink = f.drop(key)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
		})
		for _, key := range keys {
			f.add(key)
		}
		each("hit", keys, f.ask)
		each("miss", others, f.ask)
	}
}

func sixteenBytes(seed uint64, n int) [][]byte {
	keys, all := make([][]byte, n), make([]byte, 0, 16*n)
	for i, h := range filtertest.RandomHashes(seed, 2*n) {
		if all = binary.BigEndian.AppendUint64(all, h); i%2 == 1 {
			keys[i/2] = all[len(all)-16:]
		}
	}
	return keys
}

// benchAddRemove fills f and empties it again, as often as it takes.
func benchAddRemove(b *testing.B, f remover, hs []uint64) {
	b.Run("add", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			part := hs[:min(len(hs), b.N-n)]
			for _, h := range part {
				if f.AddHash(h) != nil {
					b.Fatal("full")
				}
			}
			n += len(part)
			b.StopTimer()
			for _, h := range part {
				f.RemoveHash(h)
			}
			b.StartTimer()
		}
	})
	b.Run("remove", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			part := hs[:min(len(hs), b.N-n)]
			b.StopTimer()
			for _, h := range part {
				if f.AddHash(h) != nil {
					b.Fatal("full")
				}
			}
			b.StartTimer()
			for _, h := range part {
				f.RemoveHash(h)
			}
			n += len(part)
		}
	})
}

// benchReplace removes a key from a full filter and adds another one.
func benchReplace(b *testing.B, f remover, hs []uint64) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		round, at := uint64(i/len(hs)), i%len(hs)
		f.RemoveHash(hs[at] + round)
		if f.AddHash(hs[at]+round+1) != nil {
			b.Fatal("full")
		}
		i++
	}
}

func BenchmarkBitset(b *testing.B) {
	for _, n := range []uint64{1 << 20, 1 << 30} {
		s := bitsetBelow(n)
		if err := s.Grow(n); err != nil {
			b.Fatal(err)
		}
		hs := questions()
		b.Run(fmt.Sprintf("%d/set", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if s.Set(question(hs, i)&(n-1)) != nil {
					b.Fatal("range")
				}
				i++
			}
		})
		b.Run(fmt.Sprintf("%d/has", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				benchSink = s.Has(question(hs, i) & (n - 1))
				i++
			}
		})
		b.Run(fmt.Sprintf("%d/clear", n), func(b *testing.B) {
			i := 0
			for b.Loop() {
				benchSink = s.Clear(question(hs, i) & (n - 1))
				i++
			}
		})
	}
	dense, sparse := bitsetBelow(0), bitsetBelow(0)
	for i := range uint64(1 << 20) {
		if dense.Set(i) != nil || i%100 == 0 && sparse.Set(i) != nil {
			b.Fatal("range")
		}
	}
	for _, c := range []struct {
		name string
		s    *Bitset
	}{{"dense", dense}, {"sparse", sparse}} {
		b.Run("all/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i := range c.s.All() {
					benchWord += i
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.s.Count()), "ns/member")
		})
	}
}

package lines

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchFilter returns the lines of a filter with ten bits for each of n keys, and a tenth of the keys.
func benchFilter(n int) (filter []byte, lines uint64, present []uint64) {
	lines = uint64((n*10 + 511) / 512)
	filter = make([]byte, lines*Bytes)
	r := rand.New(rand.NewPCG(3, 4))
	var some [1000]uint64
	for range n / len(some) {
		for i := range some {
			some[i] = r.Uint64()
		}
		present = append(present, some[:100]...)
		AddMany(filter, lines, 6, some[:])
	}
	rand.Shuffle(len(present), func(i, j int) { present[i], present[j] = present[j], present[i] })
	return filter, lines, present
}

// Each round asks 1024 of many hashes, so that their lines are not in a nearer cache than the filter.
func BenchmarkHasMany(b *testing.B) {
	const batch = 1024
	for _, n := range []int{1_000_000, 64_000_000} {
		if testing.Short() && n > 1_000_000 {
			continue
		}
		filter, lines, present := benchFilter(n)
		absent := randomHashes(5, len(present))
		half := append([]uint64(nil), absent...)
		for i := range half {
			if rand.IntN(2) == 0 {
				half[i] = present[i]
			}
		}
		out := make([]bool, batch)
		for _, q := range []struct {
			name   string
			hashes []uint64
		}{{"miss", absent}, {"half", half}, {"hit", present}} {
			i := 0
			run := func(name string, ask func(hashes []uint64)) {
				b.Run(fmt.Sprintf("keys=%dM/%s/%s", n/1_000_000, q.name, name), func(b *testing.B) {
					for b.Loop() {
						if i += batch; i+batch > len(q.hashes) {
							i = 0
						}
						ask(q.hashes[i : i+batch])
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/question")
				})
			}
			run("one", func(hashes []uint64) {
				for j, h := range hashes {
					out[j] = Has(filter, lines, 6, h)
				}
			})
			for _, k := range kernels() {
				run(k.name, func(hashes []uint64) { k.hasMany(filter, lines, 6, hashes, out) })
			}
		}
	}
}

func BenchmarkAddMany(b *testing.B) {
	const batch = 1024
	for _, n := range []int{1_000_000, 64_000_000} {
		if testing.Short() && n > 1_000_000 {
			continue
		}
		filter, lines, _ := benchFilter(n)
		hashes := randomHashes(6, 1<<20)
		i := 0
		run := func(name string, add func(hashes []uint64)) {
			b.Run(fmt.Sprintf("keys=%dM/%s", n/1_000_000, name), func(b *testing.B) {
				for b.Loop() {
					if i += batch; i+batch > len(hashes) {
						i = 0
					}
					add(hashes[i : i+batch])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
			})
		}
		run("one", func(hashes []uint64) {
			for _, h := range hashes {
				add(at(filter, lines, h), h, 6)
			}
		})
		for _, k := range kernels() {
			run(k.name, func(hashes []uint64) { k.addMany(filter, lines, 6, hashes) })
		}
	}
}

func BenchmarkOthers(b *testing.B) {
	const batch = 1024
	for _, n := range []int{1_000_000} {
		blocks := make([]Block, n*10/256)
		SplitAddMany(blocks, randomHashes(1, n))
		hashes, out := randomHashes(2, 1<<20), make([]bool, batch)
		i := 0
		run := func(name string, ask func(hashes []uint64)) {
			b.Run(fmt.Sprintf("keys=%dM/%s", n/1_000_000, name), func(b *testing.B) {
				for b.Loop() {
					if i += batch; i+batch > len(hashes) {
						i = 0
					}
					ask(hashes[i : i+batch])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/question")
			})
		}
		words := make([]uint64, n*10/512*8)
		for _, k := range kernels() {
			run("atomic/"+k.name, func(hashes []uint64) { k.atomic(words, hashes, out) })
			run("has/"+k.name, func(hashes []uint64) { k.splitHasMany(blocks, hashes, out) })
			run("add/"+k.name, func(hashes []uint64) { k.splitAddMany(blocks, hashes) })
		}
	}
}

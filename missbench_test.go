package shale

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// missKeys is how many keys the benchmark's store has: SHALE_KEYS, or so few
// that all filters are in the processor's cache.
func missKeys(b *testing.B) int {
	text := os.Getenv("SHALE_KEYS")
	if text == "" {
		return 500_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("SHALE_KEYS: %v", err)
	}
	return n
}

// BenchmarkMiss looks up absent keys, in settled levels and under level 0.
func BenchmarkMiss(b *testing.B) {
	for _, young := range []int{0, 8} {
		b.Run(fmt.Sprintf("young=%d", young), func(b *testing.B) {
			db := missStore(b, missKeys(b), young)
			miss := func(key []byte, i int) []byte {
				key = missKey(key, 2*uint64(i)+1)
				if found, err := db.Has(key); found || err != nil {
					b.Fatal(found, err)
				}
				return key
			}
			b.Run("one", func(b *testing.B) {
				var key []byte
				for i := range b.N {
					key = miss(key, i)
				}
			})
			b.Run("filters", func(b *testing.B) { // without the blocks that false positives read
				var key []byte
				maybe := 0
				for i := range b.N {
					if key = missKey(key, 2*uint64(i)+1); db.MayContain(key) {
						maybe++
					}
				}
				b.ReportMetric(float64(maybe)/float64(b.N), "maybe/op")
			})
			b.Run("parallel", func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					var key []byte
					for i := 0; pb.Next(); i++ {
						key = miss(key, i)
					}
				})
			})
		})
	}
}

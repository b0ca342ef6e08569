package shale

import (
	"fmt"
	"math"
	"testing"
)

// BenchmarkSeek seeks stored keys where level 0 has so many runs: with one
// iterator, and with a scan of one entry for each.
func BenchmarkSeek(b *testing.B) {
	for _, young := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("young=%d", young), func(b *testing.B) {
			const keys = 500_000
			db := missStore(b, keys, young)
			db.scheduler.Seeks.Price.Store(math.MaxInt64 - 1) // they are credited, and it is never enough
			for range db.Scan(Range{}) {
				continue // fills the cache
			}
			at := func(key []byte, i int) []byte {
				return missKey(key, 2*uint64(i*7919%keys)*0x2545f4914f6cdd1d&(1<<32-1))
			}
			b.Run("iterator", func(b *testing.B) {
				it := db.NewIterator(Range{})
				defer it.Close()
				var key []byte
				for i := range b.N {
					if key = at(key, i); !it.SeekGE(key) {
						b.Fatal(it.Err())
					}
				}
			})
			scan := func(b *testing.B, key []byte, i int) []byte {
				key = at(key, i)
				for _, err := range db.Scan(Range{Lower: key, Limit: 1}) {
					if err != nil {
						b.Fatal(err)
					}
				}
				return key
			}
			b.Run("scan", func(b *testing.B) {
				var key []byte
				for i := range b.N {
					key = scan(b, key, i)
				}
			})
			b.Run("parallel", func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					var key []byte
					for i := 0; pb.Next(); i++ {
						key = scan(b, key, i)
					}
				})
			})
		})
	}
}

package shale

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// missKey writes the i-th of 2^32 scattered keys of 16 bytes. Those of even
// numbers are stored, those of odd ones lie between them.
func missKey(dst []byte, i uint64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], i*0x9e3779b97f4a7c15)
	return hex.AppendEncode(dst[:0], b[:])
}

// missStore returns a store of n keys in settled levels, and young runs in level
// 0 above them.
func missStore(tb testing.TB, n, young int) *DB {
	tb.Helper()
	opts := &Options{MemtableSize: 4 << 20, TableSize: 4 << 20, CacheSize: 1 << 30, Durability: SyncManual, CompactionWorkers: -1}
	db := openTest(tb, opts)
	var b Batch
	var key []byte
	put := func(from, to int) {
		for i := from; i < to; i++ {
			key = missKey(key, 2*uint64(i)*0x2545f4914f6cdd1d&(1<<32-1))
			if err := b.Put(key, make([]byte, 32)); err != nil {
				tb.Fatal(err)
			}
			if b.Len() == 1000 || i == to-1 {
				if err := db.Write(db.ctx, &b); err != nil {
					tb.Fatal(err)
				}
				b.Reset()
			}
		}
	}
	for i := range 10 {
		put(n*i/10, n*(i+1)/10)
		settle(tb, db)
	}
	for i := range young {
		put(n+i*n/500, n+(i+1)*n/500)
		mustFlush(tb, db)
	}
	return db
}

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

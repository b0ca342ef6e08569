package shale

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkCores runs each operation on all processors at once. It is made to be compared by
// -cpu 1,2 and more: an operation that makes no writes which processors share takes 1/n of the time
// on n of them. docs/PERFORMANCE.md has the counts of these writes.
func BenchmarkCores(b *testing.B) {
	db := missStore(b, 500_000, 4)
	for range db.Scan(Range{}) {
		continue // fills the cache
	}
	written := openTest(b, &Options{Durability: SyncManual}) // a store that compacts, so that it stays in shape
	var fresh atomic.Uint64                                  // keys that no operation has written
	fresh.Store(1 << 40)
	for i := range 1000 { // in the memtable, and in no table
		mustPut(b, db, fmt.Sprintf("memtable%04d", i), "value")
	}
	operations := []struct {
		name string
		do   func(key []byte, i uint64) ([]byte, error)
	}{
		{"miss", func(key []byte, i uint64) ([]byte, error) {
			key = missKey(key, 2*i+1)
			_, err := db.Has(key)
			return key, err
		}},
		{"hit", func(key []byte, i uint64) ([]byte, error) {
			key = missKey(key, 2*(i%500_000)*0x2545f4914f6cdd1d&(1<<32-1))
			_, err := db.Has(key)
			return key, err
		}},
		{"hit-memtable", func(key []byte, i uint64) ([]byte, error) {
			key = fmt.Appendf(key[:0], "memtable%04d", i%1000)
			_, err := db.Has(key)
			return key, err
		}},
		{"iterator", func(key []byte, _ uint64) ([]byte, error) {
			return key, db.NewIterator(Range{}).Close()
		}},
		{"put", func(key []byte, _ uint64) ([]byte, error) {
			key = binary.BigEndian.AppendUint64(key[:0], fresh.Add(1))
			return key, written.Put(key, nil)
		}},
		{"claim", func(key []byte, _ uint64) ([]byte, error) {
			key = binary.BigEndian.AppendUint64(key[:0], fresh.Add(1))
			_, err := written.PutIfAbsent(key, nil)
			return key, err
		}},
	}
	for _, op := range operations {
		b.Run(op.name, func(b *testing.B) {
			var goroutines atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				i := goroutines.Add(1) << 20 // each has keys of its own
				key := make([]byte, 0, 32)
				for pb.Next() {
					var err error
					if key, err = op.do(key, i); err != nil {
						b.Error(err)
						return
					}
					i++
				}
			})
		})
	}
}

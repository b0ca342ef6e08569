package shale

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkWrite_Crowd writes new keys by Put and by PutIfAbsent, from one goroutine and from
// thousands, which all wait for each other. The figure is the time of one write of the store, so
// the number of writers would not show if the queue cost nothing.
func BenchmarkWrite_Crowd(b *testing.B) {
	for _, writers := range []int{1, 100, 10_000} {
		for name, write := range map[string]func(db *DB, key, value []byte) error{
			"put": (*DB).Put,
			"claim": func(db *DB, key, value []byte) error {
				inserted, err := db.PutIfAbsent(key, value)
				if err == nil && !inserted {
					err = fmt.Errorf("claim of the new key %x was lost", key)
				}
				return err
			},
		} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				db, err := Open(b.TempDir(), &Options{Durability: SyncManual})
				if err != nil {
					b.Fatal(err)
				}
				writeByCrowd(b, db, writers, write)
				closeTest(b, db)
			})
		}
	}
}

// writeByCrowd makes b.N writes of new keys by as many goroutines as writers says. The clock runs
// while the goroutines write, not while they start.
func writeByCrowd(b *testing.B, db *DB, writers int, write func(db *DB, key, value []byte) error) {
	var next atomic.Uint64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range writers {
		wg.Go(func() {
			<-start
			value := make([]byte, 32)
			for i := next.Add(1); i <= uint64(b.N); i = next.Add(1) {
				// A multiplication scatters the keys, and gives no key twice.
				key := binary.BigEndian.AppendUint64(nil, i*0x9e3779b97f4a7c15)
				if err := write(db, key, value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.ResetTimer()
	close(start)
	wg.Wait()
	b.StopTimer()
}

package shale

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkChanges reads 256 MiB of kept logs.
func BenchmarkChanges(b *testing.B) {
	for _, size := range []int{100, 1000, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			db, err := Open(b.TempDir(), &Options{KeepLog: 1 << 30, Durability: SyncManual})
			if err != nil {
				b.Fatal(err)
			}
			defer closeTest(b, db)
			const total = 256 << 20
			var batch Batch
			value := bytes.Repeat([]byte("v"), size)
			for n := 0; n < total; {
				batch.Reset()
				for batch.Size() < 16<<10 {
					n += 16 + size
					mustPut(b, &batch, fmt.Sprintf("%016d", n%(32<<20)), string(value))
				}
				if err := db.Write(context.Background(), &batch); err != nil {
					b.Fatal(err)
				}
			}
			mustFlush(b, db)
			last := ShippingOf(db).Position().LastSeq
			b.SetBytes(total)
			for b.Loop() {
				for c, err := range db.Changes(b.Context(), 0) {
					if err != nil {
						b.Fatal(err)
					}
					if c.Last == last {
						break
					}
				}
			}
		})
	}
}

// BenchmarkChanges_Writers writes in turns alone and next to a feed. The figures are the median times of one write.
func BenchmarkChanges_Writers(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 100)
	for durability, turn := range map[Durability]int{SyncManual: 20_000, SyncEach: 2000} {
		b.Run(fmt.Sprint("durability=", durability), func(b *testing.B) {
			db, err := Open(b.TempDir(), &Options{KeepLog: 256 << 20, Durability: durability})
			if err != nil {
				b.Fatal(err)
			}
			defer closeTest(b, db)
			var took [2][]float64
			n := 0
			for b.Loop() {
				for beside := range took {
					ctx, cancel := context.WithCancel(context.Background())
					var reader sync.WaitGroup
					if beside == 1 {
						last := ShippingOf(db).Position().LastSeq
						caughtUp := make(chan struct{})
						reader.Go(func() {
							for c := range db.Changes(ctx, last) {
								if c.Last == last+1 {
									close(caughtUp) // it has read over the log up to here
								}
							}
						})
						mustPut(b, db, "begin", "")
						if err := db.Sync(); err != nil {
							b.Fatal(err)
						}
						<-caughtUp
					}
					begin := time.Now()
					for range turn {
						n++
						if err := db.Put(fmt.Appendf(nil, "%016d", n%1_000_000), value); err != nil {
							b.Fatal(err)
						}
					}
					took[beside] = append(took[beside], float64(time.Since(begin).Nanoseconds())/float64(turn))
					cancel()
					reader.Wait()
				}
			}
			for beside, list := range took {
				slices.Sort(list)
				b.ReportMetric(list[len(list)/2], []string{"alone-ns", "beside-ns"}[beside])
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

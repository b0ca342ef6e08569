package shale

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Lookups hold no reference on tables. Here there are many more tables than descriptors and no
// cache, so each lookup opens a file, while compactions take files away all the time. No lookup
// fails for that, and each finds its key.
func TestConcurrency_FilesGone(t *testing.T) {
	const keys = 300
	r := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	ctx := context.Background()
	db := openTest(t, &Options{FS: vfs.NewMem(), MemtableSize: 64 << 10, TableSize: 4 << 10, BlockSize: 1 << 10, CacheSize: -1, Compression: NoCompression,
		Tuning: Tuning{MaxOpenFiles: 16}, Durability: SyncManual, CompactionWorkers: 2, testing: testOptions{baseSize: 16 << 10, level0: 2}})
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	value := func(i int) []byte { return bytes.Repeat(key(i), 100) }
	write := func() {
		for range 60 {
			i := r.IntN(keys)
			if err := db.Put(key(i), value(i)); err != nil {
				t.Error(err)
			}
		}
		if err := db.Flush(ctx); err != nil {
			t.Error(err)
		}
	}
	for i := range keys {
		if err := db.Put(key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if err := db.Compact(ctx, Range{}); err != nil {
		t.Fatal(err)
	}
	if n := len(db.Inspect().Tables()); n < 24 {
		t.Fatalf("%d tables, want many more than 16", n)
	}

	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		r := rand.New(rand.NewPCG(r.Uint64(), 0))
		readers.Go(func() {
			for !t.Failed() {
				select {
				case <-done:
					return
				default:
				}
				i, j := r.IntN(keys), r.IntN(keys)
				if v, err := db.Get(key(i)); err != nil || !bytes.Equal(v, value(i)) {
					t.Errorf("Get(%q) = %q, %v", key(i), v, err)
				}
				if err := db.GetMany([][]byte{key(i), key(j)}, func(nth int, v []byte, found bool) error {
					if want := value([]int{i, j}[nth]); !found || !bytes.Equal(v, want) {
						return fmt.Errorf("got %q, found %v, want %q", v, found, want)
					}
					return nil
				}); err != nil {
					t.Errorf("GetMany: %v", err)
				}
				if did, err := db.PutIfAbsent(key(j), nil); did || err != nil {
					t.Errorf("PutIfAbsent(%q) = %v, %v", key(j), did, err)
				}
			}
		})
	}
	for range 20 {
		write()
	}
	close(done)
	readers.Wait()
}

package shale

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// A store on a real disk with many times as many tables as MaxOpenFiles: readers
// find everything, and the process has no more descriptors than it was allowed.
func TestMaxOpenFiles(t *testing.T) {
	testenv.CheckLeaks(t)
	opts := small()
	opts.TableSize, opts.MaxOpenFiles, opts.CacheSize, opts.Compression = 4<<10, 16, 8<<10, NoCompression
	before := testenv.OpenDescriptors()
	db, err := Open(filepath.Join(t.TempDir(), "db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	const n, readers = 16000, 4
	fill(t, db, n, 0)
	mustFlush(t, db)
	waitIdle(t, db)
	if tables := len(db.Tables()); tables < 7*opts.MaxOpenFiles {
		t.Errorf("%d tables; the test wants %d", tables, 7*opts.MaxOpenFiles)
	}
	var most atomic.Int64
	var wg sync.WaitGroup
	for g := range readers {
		wg.Go(func() {
			for i := g; i < n; i += 3 * readers {
				key := fmt.Sprintf("key%06d", i)
				if v, err := db.Get([]byte(key)); err != nil || string(v) != fmt.Sprintf("value %d of round 0", i) {
					t.Errorf("Get(%q) = %q, %v", key, v, err)
				}
				if i%40 == 0 {
					most.Store(max(most.Load(), int64(testenv.OpenDescriptors())))
				}
			}
		})
	}
	wg.Go(func() {
		for _, err := range db.Scan(Range{}) {
			if err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	// The tables; one a reader on its way out; log, manifest and lock; the
	// directory that openDescriptors reads, once a reader.
	if allowed := int64(before + opts.MaxOpenFiles + 2*readers + 8); most.Load() > allowed {
		t.Errorf("%d descriptors were open, %d before the store; want %d at most", most.Load(), before, allowed)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

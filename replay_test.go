package shale

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Of a log some batches are in tables and others are not. A compaction has
// dropped the last operation of the last one that is: it must neither be
// replayed nor taken for damage.
func TestOpen_LastBatchInTablesLostATombstone(t *testing.T) {
	testenv.SkipRace(t)
	met := 0
	value := strings.Repeat("v", 400)
	for n := 20; n < 60 && met < 2; n += 2 {
		mem := vfs.NewMem()
		opts := Options{FS: mem, Durability: SyncManual, MemtableSize: 4 << 10, TableSize: 4 << 10,
			Compression: NoCompression, testing: testOptions{baseSize: 8 << 10}}
		db := mustOpen(t, "db", &opts)
		for i := range 400 { // levels below that one in which the tombstones go
			mustPut(t, db, fmt.Sprintf("key%d", i%200), strings.Repeat(fmt.Sprint(i), 100))
		}
		waitIdle(t, db)
		closeTest(t, db)
		opts.MemtableSize = 64 << 10
		db = mustOpen(t, "db", &opts)
		for i := range n {
			var b Batch
			mustPut(t, &b, fmt.Sprintf("key%d", i), value)
			mustDelete(t, &b, "deleted")
			if err := db.Write(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
		}
		kill := func() {
			db.cancel()
			db.background.Wait()
			db.abandon()
		}
		kill()
		opts.MemtableSize, opts.CompactionWorkers = 4<<10, 1
		for range 3 { // from the second on with tables
			db = mustOpen(t, "db", &opts)
			waitIdle(t, db)
			for i := range n {
				wantGet(t, db, fmt.Sprintf("key%d", i), value, true)
			}
			if l := db.Metrics().Levels; l[0].Tables == 0 && db.logs.Count() > 1 {
				met++
			}
			kill()
		}
	}
	if met == 0 {
		t.Error("no store had all its tables compacted and a log beside them")
	}
}

package damage

import (
	"bytes"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// Bundles of filters of stores of each end, as they are found on disk, deny no key: of stores that are
// opened for writing, which flushes what the log has, and read-only.
func TestExportFilters_BadStores(t *testing.T) {
	seed := testenv.Seed(t)
	for end := range numEnds {
		bad := newBadStore(t, seed, end)
		for _, readOnly := range []bool{true, false} {
			opts := harness.DrawSeeded(bad.mem.Crash(harness.KeepAll), seed, uint64(end))
			opts.ReadOnly, opts.CompactionWorkers = readOnly, -1
			db, err := shale.Open(harness.Dir, &opts)
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			info, err := db.ExportFilters(t.Context(), &file)
			if err != nil {
				t.Fatal(err)
			}
			b, err := bundle.Open(file.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			there := 0
			for e, err := range db.Scan(shale.Range{}) {
				if err != nil {
					t.Fatal(err)
				}
				there++
				if !b.MayContain(e.Key) {
					t.Errorf("%v, read-only %v: the bundle denies %q", end, readOnly, e.Key)
				}
			}
			if there == 0 || readOnly != (info.Memtables > 0) {
				t.Errorf("%v, read-only %v: %d keys, %+v", end, readOnly, there, info)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

package shale

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Metrics takes its sums from runs, which derive them from the run before when tables come
// and go. After any flush, compaction, ingestion or change of filters they are those of all
// tables.
func TestMetrics_AreSumsOverTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	opts := small()
	opts.CompactionWorkers = -1
	opts.FilterMemory = 8 << 10 // so that some filters are released and read again
	db := openTest(t, opts)
	for range 40 {
		from := rng.IntN(2000)
		switch rng.IntN(4) {
		case 0:
			if err := db.Compact(context.Background(), Range{Lower: testKey(from)}); err != nil {
				t.Fatal(err)
			}
		case 1:
			err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
				for i := from; i < from+50 && yield(testKey(i), []byte("ingested")); i++ {
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		default:
			for i := range 200 {
				mustPut(t, db, string(testKey(from+i)), "value")
			}
			mustFlush(t, db)
		}
		checkSums(t, db)
	}
}

func testKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// checkSums compares the figures of Metrics with those of all tables. Requires: nothing
// changes the tables and filters, but for the loop that makes filters fit.
func checkSums(t *testing.T, db *DB) {
	t.Helper()
	db.filters.Adjust(db.mems.View().Version)
	m, v := db.Metrics(), db.mems.View()
	var want [NumLevels]LevelMetrics
	var keys [NumLevels]float64
	indexes := int64(0)
	for _, r := range v.Runs {
		l := &want[r.Level]
		expected, of := 0.0, 0.0
		for _, table := range r.Tables {
			index, filter := table.Reader.MemoryBytes()
			indexes += index
			l.Tables++
			l.Bytes += table.Meta.Size
			l.Entries += table.Meta.Entries
			l.Tombstones += table.Meta.Tombstones
			l.FilterBytes += filter
			n := float64(max(table.Meta.Keys, 1))
			of += n
			expected += n * table.PredictedFPR()
		}
		keys[r.Level] += of
		l.PredictedFPR += expected / of
	}
	for i, got := range m.Levels {
		w := want[i]
		if got.Tables != w.Tables || got.Bytes != w.Bytes || got.Entries != w.Entries || got.Tombstones != w.Tombstones ||
			got.FilterBytes != w.FilterBytes || math.Abs(got.PredictedFPR-w.PredictedFPR) > 1e-9 {
			t.Fatalf("level %d: Metrics %+v, all tables %+v", i, got, w)
		}
		if bits := 8 * float64(w.FilterBytes); math.Abs(got.FilterBits*keys[i]-bits) > 1e-3 {
			t.Fatalf("level %d: %v bits a key, want %v", i, got.FilterBits, bits/keys[i])
		}
	}
	if m.IndexMemory != indexes {
		t.Fatalf("indexes take %d bytes, want %d", m.IndexMemory, indexes)
	}
}

// Tables allocates about once for each table, for its bounds.
func TestTables_Allocations(t *testing.T) {
	testenv.SkipRace(t)
	opts := small()
	opts.CompactionWorkers, opts.BlockSize = -1, 16<<10
	db := openTest(t, opts)
	value := make([]byte, opts.TableSize)
	const n = 300 // tables of one value each
	err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
		for i := 0; i < n && yield(testKey(i), value); i++ {
		}
	})
	if got := len(db.Inspect().Tables()); err != nil || got != n {
		t.Fatalf("%d tables, %v, want %d", got, err, n)
	}
	if got := allocationsOf(func() { db.Inspect().Tables() }); got > 1.1*n {
		t.Errorf("%v allocations for %d tables, want one for each and a few more", got, n)
	}
}

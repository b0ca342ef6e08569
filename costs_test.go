package shale

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestCosts_OfAFill pins what a store writes for the same writes: a change that
// makes it write more is seen here. Nothing is left to chance or time: one seed,
// and each memtable is flushed and compacted before the next one fills.
func TestCosts_OfAFill(t *testing.T) {
	testenv.SkipRace(t)
	const memtable, n = 64 << 10, 40_000
	tests := []struct {
		name         string
		key          func(r *rand.Rand, i int) uint64
		tables, logs float64 // bytes written for each of keys and values
		runs         int     // that the store has then, at most
	}{
		{"new keys in no order", func(_ *rand.Rand, i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }, 5.10, 1.166, 3},
		{"new keys in order", func(_ *rand.Rand, i int) uint64 { return uint64(i) }, 0.676, 1.166, 6},
		{"the same keys again", func(r *rand.Rand, _ int) uint64 { return r.Uint64N(n/4) * 0x9e3779b97f4a7c15 }, 3.54, 1.166, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), MemtableSize: memtable, TableSize: 64 << 10, Durability: SyncManual})
			key, value := make([]byte, 16), make([]byte, 100)
			user := 0
			for i := range n {
				binary.BigEndian.PutUint64(key, test.key(r, i))
				for j := 0; j < len(value)/2; j += 8 {
					binary.LittleEndian.PutUint64(value[j:], r.Uint64())
				}
				mustPut(t, db, string(key), string(value))
				user += len(key) + len(value)
				if i%250 == 249 {
					if err := db.Flush(context.Background()); err != nil {
						t.Fatal(err)
					}
					waitIdle(t, db)
				}
			}
			m := db.Metrics()
			tables, logs := float64(m.FlushBytes+m.CompactBytes)/float64(user), float64(m.WALBytes)/float64(user)
			runs := 0
			for _, l := range m.Levels {
				runs += l.Runs
			}
			t.Logf("written: %.3f tables, %.3f logs, in %d flushes and %d compactions; %d runs", tables, logs, m.Flushes, m.Compactions, runs)
			if tables > test.tables*1.03 || tables < test.tables*0.97 {
				t.Errorf("%.3f bytes of tables are written for a byte, %.2f were", tables, test.tables)
			}
			if logs > test.logs*1.03 || logs < test.logs*0.97 {
				t.Errorf("%.3f bytes of logs are written for a byte, %.2f were", logs, test.logs)
			}
			if runs > test.runs {
				t.Errorf("%d runs, want %d at most", runs, test.runs)
			}
			closeTest(t, db)
		})
	}
}

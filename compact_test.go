package shale

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// groups opens a store and writes two tables of level 0 for each letter.
func groups(t *testing.T, letters string) *DB {
	t.Helper()
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	for round := range 2 {
		for _, l := range letters {
			for i := range 50 {
				mustPut(t, db, fmt.Sprintf("%c%03d", l, i), fmt.Sprint(round))
			}
			mustFlush(t, db)
		}
	}
	return db
}

// shape lists the letters, each with the levels of its tables: "a00 b6" for two tables of a in
// level 0 and one of b in level 6.
func shape(db *DB) string {
	levels := make(map[byte]string)
	for _, info := range db.Inspect().Tables() {
		for l := info.Smallest[0]; l <= info.Largest[0]; l++ {
			levels[l] += fmt.Sprint(info.Level)
		}
	}
	var s []string
	for l := byte('a'); l <= 'z'; l++ {
		if levels[l] != "" {
			s = append(s, string(l)+levels[l])
		}
	}
	return strings.Join(s, " ")
}

// Compact moves the tables that overlap its range to the last level and leaves the others where
// they are.
func TestCompact_Range(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Range
		want string
	}{
		{"all", Range{}, "a6 b6 c6 d6"},
		{"one group", Prefix("b"), "a00 b6 c00 d00"},
		{"one key", Range{Lower: []byte("c010"), Upper: []byte("c010\x00")}, "a00 b00 c6 d00"},
		{"from a key on", Range{Lower: []byte("c040")}, "a00 b00 c6 d6"},
		{"up to a key", Range{Upper: []byte("b000")}, "a6 b00 c00 d00"},
		{"between the keys", Range{Lower: []byte("b9"), Upper: []byte("bz")}, "a00 b00 c00 d00"},
		{"beyond all", Range{Lower: []byte("e")}, "a00 b00 c00 d00"},
		{"no key", Range{Upper: []byte{}}, "a00 b00 c00 d00"},
		{"bounds the wrong way", Range{Lower: []byte("d"), Upper: []byte("a")}, "a00 b00 c00 d00"},
	} {
		db := groups(t, "abcd")
		for range 2 { // the second has nothing to do
			if err := db.Compact(t.Context(), c.r); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if got := shape(db); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		for _, l := range "abcd" {
			wantGet(t, db, string(l)+"049", "1", true)
			wantGet(t, db, string(l)+"050", "", false)
		}
	}
}

// levelRunsOf returns how many runs the levels below level 0 have at most.
func levelRunsOf(db *DB) (most int) {
	for level := 1; level < manifest.NumLevels; level++ {
		most = max(most, len(db.mems.View().Meta.Levels[level].Runs))
	}
	return most
}

// TestCosts_OfAFill pins how many bytes a store writes to its files for the same entries, so
// that a change which makes it write more fails. The figures depend neither on chance nor on
// time: the seed is fixed, and each memtable is flushed and compacted before the next one fills.
func TestCosts_OfAFill(t *testing.T) {
	testenv.SkipRace(t)
	const memtable, n = 64 << 10, 40_000
	tests := []struct {
		name         string
		key          func(r *rand.Rand, i int) uint64
		tables, logs float64 // bytes written for each byte of keys and values
		runs         int     // how many runs the store may have at the end
	}{
		{"new keys in no order", func(_ *rand.Rand, i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }, 3.40, 1.166, 7},
		{"new keys in order", func(_ *rand.Rand, i int) uint64 { return uint64(i) }, 0.676, 1.166, 14},
		{"the same keys again", func(r *rand.Rand, _ int) uint64 { return r.Uint64N(n/4) * 0x9e3779b97f4a7c15 }, 2.32, 1.166, 6},
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

// A store that allows several runs in a level gets such levels and answers from them. Opened with
// one run allowed, it still answers, and compactions leave one run in each level.
func TestLevelRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	opts := tinyStore(vfs.NewMem())
	opts.testing.baseSize = 4 << 10
	want := make(map[string]string)
	for _, runs := range []int{4, 1} {
		opts.testing.runs = runs
		db, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		// The first store ends with several runs in a level, and the second often begins with them.
		most := levelRunsOf(db)
		for i := 0; i < 2000 || i < 20_000 && runs > 1 && levelRunsOf(db) < 2; i++ {
			key, value := fmt.Sprintf("%04d", r.IntN(1000)), fmt.Sprintf("%d of %d, %040d", i, runs, i)
			want[key] = value
			mustPut(t, db, key, value)
			most = max(most, levelRunsOf(db))
		}
		if runs > 1 && most < 2 {
			t.Errorf("at most %d runs in a level", most)
		}
		for key, value := range want {
			if got, err := db.Get([]byte(key)); err != nil || string(got) != value {
				t.Fatalf("%d runs: Get(%q) = %q, %v, want %q", runs, key, got, err, value)
			}
		}
		if runs == 1 {
			waitIdle(t, db)
			if n := levelRunsOf(db); n > 1 {
				t.Errorf("a level still has %d runs", n)
			}
		}
		t.Logf("%d runs allowed, up to %d seen", runs, most)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package shale

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// TestLevelRuns: levels of several runs come about, answer, and are read and
// emptied by a store that allows one.
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
		// The first ends with several runs in a level, and the second often begins so.
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

// levelRunsOf returns the most runs of a level below level 0.
func levelRunsOf(db *DB) (most int) {
	for level := 1; level < manifest.NumLevels; level++ {
		most = max(most, len(db.view.Load().Meta.Levels[level].Runs))
	}
	return most
}

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// All stores do all workloads, small.
func TestRun(t *testing.T) {
	for _, keys := range []string{"random", "structured"} {
		t.Run(keys, func(t *testing.T) {
			t.Parallel()
			testRun(t, keys)
		})
	}
}

func testRun(t *testing.T, keys string) {
	file := filepath.Join(t.TempDir(), "results.json")
	args := []string{"-n", "2000", "-reads", "500", "-rounds", "2", "-cache", "8000000", "-memtable", "50000",
		"-keys", keys, "-dir", t.TempDir(), "-json", file}
	c, err := parse(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(c, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	ways := 0
	for _, s := range newStores() {
		ways += len(s.ways())
	}
	if want := 2*len(newStores()) + 5*ways; len(r.Results) != want {
		t.Errorf("%d results, want %d", len(r.Results), want)
	}
	if len(r.Scaling) != ways {
		t.Errorf("%d ratios of two readers, want %d", len(r.Scaling), ways)
	}
	for _, x := range r.Results {
		if x.Median <= 0 || x.Ratio <= 0 || !strings.Contains(out.String(), x.Engine) || !strings.Contains(out.String(), x.Workload) {
			t.Errorf("result %+v: no time, or not in the table", x)
		}
		if strings.HasPrefix(x.Workload, "read") && (x.Allocs == nil || x.ReadCalls == nil && runtime.GOOS == "linux") {
			t.Errorf("result %+v has no counts", x)
		}
		if x.Engine == "shale" && strings.HasPrefix(x.Workload, "readmissing") && (x.Predicted == nil || x.FalsePositives == nil || x.BlockReads == nil) {
			t.Errorf("result %+v has no false positives", x)
		}
	}
	for _, s := range r.Shapes {
		if len(s.Levels) == 0 || strings.Contains(s.Phase, "8 runs") && level0Runs(s.Levels) != 8 {
			t.Errorf("%s: shape %+v", s.Phase, s)
		}
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// A reader that lies ends the run.
func TestLookUp_WrongAnswer(t *testing.T) {
	s := keys.NewSpace("random", 1000)
	for _, tc := range []struct {
		slab keys.Slab
		size int
		err  error
	}{
		{s.AbsentSlab(0, 3), valueSize, nil},
		{s.PresentSlab(0, 1000, 3), absent, nil},
		{s.PresentSlab(0, 1000, 3), valueSize - 1, nil},
		{s.AbsentSlab(0, 3), absent, errors.New("unreadable")},
	} {
		if err := lookUp(liar{tc.size, tc.err}, tc.slab); err == nil {
			t.Errorf("lookUp of absent keys %v with answer %d, %v: no error", tc.slab.Absent(), tc.size, tc.err)
		}
	}
	if err := lookUp(liar{absent, nil}, s.AbsentSlab(0, 3)); err != nil {
		t.Errorf("lookUp with right answers: %v", err)
	}
}

type liar struct {
	size int
	err  error
}

func (l liar) get([]byte) (int, error) { return l.size, l.err }
func (l liar) close() error            { return nil }

func TestLevel0Runs(t *testing.T) {
	if got := level0Runs([]level{{Level: 1, Runs: 1}}); got != 0 {
		t.Errorf("level0Runs without level 0 = %d, want 0", got)
	}
	if got := level0Runs([]level{{Level: 0, Runs: 3}, {Level: 1, Runs: 1}}); got != 3 {
		t.Errorf("level0Runs = %d, want 3", got)
	}
}

func TestLevel_Add(t *testing.T) {
	var all level
	all.add(level{Level: 0, Runs: 2, Tables: 2, Bytes: 10, Entries: 100, FilterBits: 25, PredictedFPR: 0.001})
	all.add(level{Level: 6, Runs: 1, Tables: 4, Bytes: 90, Entries: 900, FilterBits: 10, PredictedFPR: 0.01})
	if want := (level{Runs: 3, Tables: 6, Bytes: 100, Entries: 1000, FilterBits: 11.5, PredictedFPR: 0.011}); all != want {
		t.Errorf("sum of levels %+v, want %+v", all, want)
	}
}

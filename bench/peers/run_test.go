package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// TestMain lets the test program be the process of a group.
func TestMain(m *testing.M) {
	if os.Getenv(specVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// All stores do all workloads, small, and every figure is there.
func TestRun(t *testing.T) {
	kinds := map[string][]string{"random": nil, "structured": {"shale", "pebble"}, "hashed": {"shale"}}
	for keys, only := range kinds {
		t.Run(keys, func(t *testing.T) {
			t.Parallel()
			testRun(t, keys, only)
		})
	}
}

func testRun(t *testing.T, keys string, only []string) {
	file := filepath.Join(t.TempDir(), "results.json")
	args := []string{"-short", "-n", "4000", "-seconds", "0.01", "-keys", keys, "-only", strings.Join(only, ","), "-dir", t.TempDir(), "-json", file}
	c, err := parse(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(&c, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	f, err := results.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Summary()
	for i := range groups {
		for _, w := range groups[i].workloads {
			for _, store := range c.only {
				kind, err := stores.Find(store)
				if err != nil {
					t.Fatal(err)
				}
				if has := kind.Can.Has(groups[i].needs); (s.Cell(w, store) != nil) != has {
					t.Errorf("a result of %s on %s: %v, want %v", w, store, !has, has)
				}
			}
		}
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		checkFigures(t, r)
		if !strings.Contains(out.String(), r.Store) || !strings.Contains(out.String(), r.Workload) {
			t.Errorf("%s, %s: not in the table", r.Workload, r.Store)
		}
	}
	var again strings.Builder
	if err := report([]string{file}, &again); err != nil || again.String() != out.String() {
		t.Errorf("the tables of the file, %v:\n%s\nwant\n%s", err, again.String(), out.String())
	}
	if slices.Contains(c.only, "pebble") && s.Cell("readmissing-levels", "pebble, UseL6Filters") == nil {
		t.Error("no result of the second way to read Pebble")
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestReport_Refused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "results.json")
	if err := new(results.File).Write(empty); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {empty}, {empty + "x"}, {empty, "more"}} {
		if err := report(args, t.Output()); err == nil {
			t.Errorf("report %q: no error", args)
		}
	}
}

// checkFigures sees that no figure of a run is missing that should be there.
func checkFigures(t *testing.T, r *results.Run) {
	t.Helper()
	positive := map[string]float64{
		"ops": float64(r.Ops), "seconds": r.Seconds, "rate": r.OpsPerSecond, "ns": r.NanosPerOp, "routines": float64(r.Routines), "own": r.OwnNanosPerOp,
		"samples": float64(r.Latency.Samples), "p50": r.Latency.P50, "p90": r.Latency.P90, "p99": r.Latency.P99,
		"p99.9": r.Latency.P999, "p99.99": r.Latency.P9999, "max": r.Latency.Max,
	}
	if runtime.GOOS == "linux" {
		positive["CPU"], positive["peak"], positive["anonymous"] = r.CPUNanosPerOp, float64(r.PeakBytes), float64(r.AnonBytes)
		positive["read calls"], positive["read bytes"] = r.IO.ReadCalls, r.IO.ReadBytes
	}
	writes := strings.HasPrefix(r.Workload, "fill") || r.Workload == "overwrite" || r.Workload == "deleterandom"
	if writes {
		if r.Write == nil {
			t.Errorf("%s, %s: no figures of writing", r.Workload, r.Store)
			return
		}
		positive["user bytes"], positive["settle"], positive["to settled"] = float64(r.Write.UserBytes), r.Write.SettleSeconds, r.Write.SecondsToSettled
		positive["stall"], positive["series"] = r.Write.LongestStall, float64(len(r.Write.Series))
		positive["write amplification"] = r.Write.AmpSettled // at the end Pebble may have written nothing yet
		sum := int64(0)
		for _, n := range r.Write.Series {
			sum += n
		}
		if sum != r.Ops {
			t.Errorf("%s, %s: %d operations in the series, want %d", r.Workload, r.Store, sum, r.Ops)
		}
	}
	if strings.HasPrefix(r.Workload, "fill") {
		if r.Fill == nil {
			t.Errorf("%s, %s: no figures of the fill", r.Workload, r.Store)
			return
		}
		positive["directory"], positive["live"], positive["space"] = float64(r.Fill.DirBytes), float64(r.Fill.LiveBytes), r.Fill.SpaceAmp
		positive["close"], positive["reopen"] = r.Fill.CloseMillis, r.Fill.ReopenMillis
	}
	if strings.HasPrefix(r.Workload, "txn") {
		positive["tries"] = r.Tries
	}
	if strings.HasPrefix(r.Workload, "readmissing") && r.Store == "shale" {
		if r.Engine == nil {
			t.Errorf("%s, %s: no counts of the engine", r.Workload, r.Store)
			return
		}
		positive["predicted"] = r.Engine.PredictedFPR
	}
	for name, figure := range positive {
		if !(figure > 0) {
			t.Errorf("%s, %s: %s is %v", r.Workload, r.Store, name, figure)
		}
	}
	if r.Latency.P50 > r.Latency.P99 || r.Latency.P99 > r.Latency.Max || r.Latency.Of == "" || r.GCShare < 0 || r.GCShare > 1 {
		t.Errorf("%s, %s: latency %+v, GC %v", r.Workload, r.Store, r.Latency, r.GCShare)
	}
	if strings.HasSuffix(r.Workload, "-levels") && r.Store != "bbolt" && stores.Level0Runs(r.Levels) != levelRuns {
		t.Errorf("%s, %s: levels %+v", r.Workload, r.Store, r.Levels)
	}
}

package results

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestSummary(t *testing.T) {
	var f File
	for round, rate := range []float64{100, 300, 200} {
		f.Runs = append(f.Runs,
			Run{Store: "shale", Workload: "fill", Round: round, OpsPerSecond: rate},
			Run{Store: "pebble", Workload: "fill", Round: round, OpsPerSecond: rate / 2, Cut: round == 1},
			Run{Store: "bbolt", Workload: "fill", Round: round, OpsPerSecond: rate * 2})
	}
	f.Runs = append(f.Runs, Run{Store: "pebble, another way", Workload: "read", OpsPerSecond: 1})
	s := f.Summary()
	if want := []string{"shale", "pebble", "pebble, another way", "bbolt"}; !slices.Equal(s.Stores, want) {
		t.Errorf("stores %q, want %q", s.Stores, want)
	}
	if want := []string{"fill", "read"}; !slices.Equal(s.Workloads, want) {
		t.Errorf("workloads %q, want %q", s.Workloads, want)
	}
	c := s.Cell("fill", "shale")
	if c.Median(Rate) != 200 || c.Spread(Rate) != 3 || c.Cut() {
		t.Errorf("median %v, spread %v, cut %v", c.Median(Rate), c.Spread(Rate), c.Cut())
	}
	if r, ok := s.Ratio("fill", "pebble"); !ok || r != 2 || !s.Cell("fill", "pebble").Cut() {
		t.Errorf("ratio %v, %v", r, ok)
	}
	if _, ok := s.Ratio("read", "bbolt"); ok || s.Cell("read", "bbolt") != nil {
		t.Error("a ratio of what did not run")
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	f := File{Settings: Settings{Entries: 5}, Runs: []Run{{Store: "shale", Write: &Write{Series: []int64{1, 2}}}}}
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || got.Settings.Entries != 5 || len(got.Runs) != 1 || !slices.Equal(got.Runs[0].Write.Series, f.Runs[0].Write.Series) {
		t.Errorf("read %+v, %v", got, err)
	}
	if _, err := Read(path + "x"); err == nil {
		t.Error("read a file that is not there")
	}
}

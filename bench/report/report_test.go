package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/internal/svg/svgtest"
)

// writeLines makes a file of n lines, made by format from 0, step, 2*step, ...
func writeLines(t *testing.T, format string, n, step int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i*step)
	}
	return writeFile(t, b.String())
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tinyReport is a report in which everything is measured, for a moment.
func tinyReport(t *testing.T) config {
	t.Helper()
	t.Setenv("PATH", "") // no browser
	return config{
		keys: writeLines(t, "key%06d<b>&\"", 2000, 2), absent: writeLines(t, "key%06d.", 1900, 2),
		dir:  filepath.Join(t.TempDir(), "report"),
		test: &effort{lookups: 200, coldLookups: 10, levels: 2, fillKeys: 300, limit: 20 * time.Millisecond, points: 2},
	}
}

func TestMakeReport(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a dozen stores")
	}
	c := tinyReport(t)
	var out strings.Builder
	if err := c.makeReport(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if !strings.HasSuffix(out.String(), filepath.Join(c.dir, "report.html")+"\n") || !strings.Contains(out.String(), "not all .png figures were made") {
		t.Errorf("it prints %q", out.String())
	}
	res, err := readResults(filepath.Join(c.dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range experiments() {
		cells := res.of(e.name, nil)
		if len(cells) == 0 {
			t.Errorf("%s has no cells", e.name)
		}
		for _, cell := range cells {
			if e.name != "F6" && (cell.Lookups == 0 || cell.Seconds <= 0) || cell.Keys == 0 || cell.TableBytes == 0 {
				t.Errorf("%s: %+v", e.name, cell)
			}
			if !cell.Filters && cell.FilterBytes != 0 {
				t.Errorf("%s: filters are off, and take memory: %+v", e.name, cell)
			}
		}
	}
	off, on := pair(res.of("F1", warm))
	if off.BlockReads < 1.8 || off.BlockReads > 2 || on.BlockReads > 0.2 {
		t.Errorf("two levels: %v block reads a miss without filters, %v with them", off.BlockReads, on.BlockReads)
	}
	off, on = pair(res.of(controls, func(c *cell) bool { return c.Name == "present keys" }))
	if off.BlockReads < 1 || on.BlockReads < 1 || on.BlockReads > off.BlockReads {
		t.Errorf("present keys: %v block reads without filters, %v with them", off.BlockReads, on.BlockReads)
	}
	if outside := res.of(controls, func(c *cell) bool { return strings.Contains(c.Name, "beyond") }); len(outside) != 2 || outside[0].BlockReads > 0 {
		t.Errorf("keys beyond the last: %+v", outside)
	}
	checkPage(t, c.dir, len(experiments())-1)
}

// checkPage parses figures and page, and looks for what must not get through.
func checkPage(t *testing.T, dir string, figures int) {
	t.Helper()
	svgs, err := filepath.Glob(filepath.Join(dir, "figures", "*.svg"))
	if err != nil || len(svgs) != figures {
		t.Fatalf("figures: %q, %v, want %d", svgs, err, figures)
	}
	for _, svg := range svgs {
		data, err := os.ReadFile(svg)
		if err != nil {
			t.Fatal(err)
		}
		svgtest.Parse(t, data)
		if len(data) > 60_000 || strings.Contains(string(data), "NaN") || strings.Contains(string(data), "Inf") {
			t.Errorf("%s: %d bytes, or a number that is none", svg, len(data))
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "<svg"); n != figures {
		t.Errorf("the page has %d figures, want %d", n, figures)
	}
	for _, not := range []string{"<script", "src=", "href=", "NaN"} {
		if strings.Contains(string(page), not) {
			t.Errorf("the page has %q", not)
		}
	}
}

// -only replaces the cells of its figures and keeps the others'; -redraw
// measures nothing.
func TestMakeReport_Again(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the disk, too often")
	}
	c := tinyReport(t)
	c.test.points = 1
	c.only = "f5"
	if err := c.makeReport(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(c.dir, "results.json")
	first, err := readResults(results)
	if err != nil {
		t.Fatal(err)
	}
	c.only = "C,F5, f5"
	if err := c.makeReport(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	second, err := readResults(results)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := len(first.of("F5", nil)), len(second.of("F5", nil)); a == 0 || a != b {
		t.Errorf("%d cells of F5, then %d", a, b)
	}
	for i, cell := range second.of("F5", nil) {
		if was := first.of("F5", nil)[i]; cell.Lookups == was.Lookups && cell.Blocks != was.Blocks {
			t.Errorf("the counts of two measurements differ: %+v and %+v", was, cell)
		}
	}
	checkPage(t, c.dir, 1)
	if err := os.RemoveAll(filepath.Join(c.dir, "figures")); err != nil {
		t.Fatal(err)
	}
	c = config{dir: c.dir, redraw: true}
	if err := c.makeReport(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	checkPage(t, c.dir, 1)

	other := tinyReport(t)
	other.dir, other.only, other.keys = c.dir, "F5", writeLines(t, "key%06d-", 1800, 2)
	if err := other.makeReport(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "it is of other keys") {
		t.Errorf("a figure of other keys in the same dir: %v", err)
	}
}

func TestRun_Usage(t *testing.T) {
	dir, file, keys := t.TempDir(), writeFile(t, "{}"), writeLines(t, "%03d", 300, 2)
	if err := os.WriteFile(keys+"0", []byte("001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "old")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "results.json"), []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"-nonsense", "flag provided but not defined: -nonsense; -h lists"},
		{"-o r word", `unexpected argument "word"`},
		{"-o " + dir + " -only F9", `there is no figure "F9"`},
		{"-o " + filepath.Join(dir, "none") + " -redraw", "the earlier results: open "},
		{"-o " + old + " -redraw", "its version is 99"},
		{"-o " + filepath.Join(file, "below") + " -short -keys " + keys + " -absent " + keys + "0", "-o: mkdir"},
		{"-o " + dir + " -short -keys " + file, "-keys and -absent go together"},
	} {
		err := run(t.Context(), strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("report %s: %v, want %q", tt.args, err, tt.want)
		}
	}
	var help strings.Builder
	if err := run(t.Context(), []string{"-h"}, &help); err != nil || !strings.Contains(help.String(), "-o directory") {
		t.Errorf("-h: %v, %s", err, help.String())
	}
}

// An interrupt ends the work and leaves no store behind.
func TestMakeReport_Interrupted(t *testing.T) {
	c := tinyReport(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.makeReport(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("makeReport: %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestResults_ReadWhatWasWritten(t *testing.T) {
	r := &results{Version: resultsVersion, Dataset: "\"<x>\n\xff", Cells: []*cell{
		{Figure: "F1", X: 3, Filters: true, Levels: []benchmark.Level{{Level: 6, Bits: 9.5}}, Quantiles: []quantilePoint{{0.5, 120}}, Preads: -1},
		{Figure: controls, Name: "a name"},
	}}
	path := filepath.Join(t.TempDir(), "results.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !json.Valid(data) || strings.Count(string(data), "\n    {\"figure\"") != 2 {
		t.Errorf("%v:\n%s", err, data)
	}
	got, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Cells) != 2 || got.Cells[0].Quantiles[0] != (quantilePoint{0.5, 120}) || got.Cells[0].Levels[0].Bits != 9.5 || got.Cells[1].Name != "a name" {
		t.Errorf("read %+v", got.Cells)
	}
	if html, err := (page{got, nil}).html(); err != nil || !utf8.Valid(html) || bytes.Contains(html, []byte("<x>")) || !bytes.Contains(html, []byte("&lt;x&gt;")) {
		t.Errorf("the page has the name of the data as it is, or is none: %v", err)
	}
}

// The textbook's numbers.
func TestStandardFPR(t *testing.T) {
	for bits, want := range map[float64]float64{2: 0.393, 10: 0.00819, 16: 0.000459} {
		if got := standardFPR(bits); got < want*0.99 || got > want*1.01 {
			t.Errorf("%v bits: %v, want %v", bits, got, want)
		}
	}
}

// Two passes make one cell: means by lookups, and an error where counts that
// must repeat do not.
func TestCell_Add(t *testing.T) {
	pass := func(lookups int, blocks float64, preads int64) benchmark.Counts {
		return benchmark.Counts{Lookups: lookups, Seconds: 1, BlocksPerLookup: blocks, ReadsPerLookup: blocks, Preads: preads, DeviceBytes: 2 * preads}
	}
	c := &cell{}
	for _, r := range []benchmark.Counts{pass(100, 2, 200), pass(300, 4, 1200)} {
		if err := c.add(r, shale.Metrics{}, true); err != nil {
			t.Fatal(err)
		}
	}
	if c.Lookups != 400 || c.Blocks != 3.5 || c.BlockReads != 3.5 || c.Preads != 3.5 || c.DeviceBytes != 7 || c.Seconds != 2 || len(c.PassNanos) != 2 {
		t.Errorf("%+v", c)
	}
	if err := c.add(pass(400, 3, 0), shale.Metrics{}, true); err == nil || !strings.Contains(err.Error(), "the same 400 lookups looked into 3.5 blocks each, and then into 3") {
		t.Errorf("other counts of the same lookups: %v", err)
	}
	if err := c.add(pass(400, 3, -1), shale.Metrics{}, false); err != nil || c.Preads != -1 || c.DeviceBytes != -1 {
		t.Errorf("a pass without the system's counts: %v, %+v", err, c)
	}
}

func TestQuantiles(t *testing.T) {
	times := make([]int64, 0, 10001)
	for i := range 10001 {
		times = append(times, int64(10000-i))
	}
	c := &cell{Quantiles: quantiles(times)}
	for p, want := range map[float64]float64{0: 0, 0.5: 5000, 0.99: 9900, 0.999: 9990, 0.9999: 9999, 1: 10000} {
		if got := quantile(c, p); got != want {
			t.Errorf("quantile(%v) = %v, want %v", p, got, want)
		}
	}
	if quantiles(nil) != nil || quantile(&cell{}, 0.5) != 0 {
		t.Error("quantiles of nothing")
	}
}

func TestMixture(t *testing.T) {
	r := &runner{}
	for i := range 1000 {
		r.present, r.absent = append(r.present, fmt.Appendf(nil, "p%d", i)), append(r.absent, fmt.Appendf(nil, "a%d", i))
	}
	for _, hits := range []float64{0, 0.1, 1} {
		warmUp, q := r.mixture(400, hits)
		seen, found := map[string]bool{}, 0
		for _, s := range []stream{warmUp, q} {
			for i, key := range s.keys {
				if seen[string(key)] || s.found[i] != (key[0] == 'p') {
					t.Fatalf("%s, found %v: twice, or wrong", key, s.found[i])
				}
				seen[string(key)] = true
				if s.found[i] {
					found++
				}
			}
		}
		if len(warmUp.keys) != 400 || len(q.keys) != 400 || found != int(800*hits) {
			t.Errorf("%v: %d and %d lookups, %d of which find their key", hits, len(warmUp.keys), len(q.keys), found)
		}
	}
}

// Results that were written by hand, or end early, are drawn or refused.
func TestReadResults_Partial(t *testing.T) {
	t.Setenv("PATH", "") // no browser
	path := filepath.Join(t.TempDir(), "results.json")
	for _, tt := range []struct{ cells, want string }{
		{"", "there are no results to draw"},
		{"null", "cell 1 lacks a part"},
		{`{"figure":"F1"},{"figure":"F2","level_fpr":[1]}`, "cell 2 lacks a part"},
		{`{"figure":"F6"}`, "cell 1 lacks a part"},
		{`{"figure":"F6","write_seconds":[0]}`, ""},
		{`{"figure":"F1"},{"figure":"F2"},{"figure":"F3"},{"figure":"F4"},{"figure":"F5"},{"figure":"F7"},{"figure":"C"},{"figure":"F9"}`, ""},
		{`{"figure":"F1","x":-1e300,"block_reads":1e300},{"figure":"F3","quantiles":[[0.5,0]]},{"figure":"F4","x":7,"hits":9},{"figure":"F7","x":1e9}`, ""},
	} {
		if err := os.WriteFile(path, []byte(`{"version":1,"cells":[`+tt.cells+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		err := config{dir: filepath.Dir(path), redraw: true}.makeReport(t.Context(), io.Discard)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.cells, err, tt.want)
		}
	}
}

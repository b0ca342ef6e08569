package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	path := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tiny is a config with which everything is measured, for a moment.
func tiny(t *testing.T) config {
	t.Helper()
	return config{
		keys: writeLines(t, "key%06d<b>&\"", 2000, 2), absent: writeLines(t, "key%06d.", 1900, 2),
		dir:    filepath.Join(t.TempDir(), "report"),
		effort: effort{lookups: 200, coldLookups: 10, levels: 2, limit: 20 * time.Millisecond, bits: []float64{0, 2, 10}},
	}
}

func TestMakeFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("makes some stores")
	}
	c := tiny(t)
	var out strings.Builder
	if err := c.makeFigures(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for file, want := range map[string]string{
		"f1-savings.svg": "An absent key in 2 levels: ",
		"f2-curve.svg":   "10 bits a key: ",
	} {
		data, err := os.ReadFile(filepath.Join(c.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		texts, elements := svgtest.Parse(t, data)
		all := strings.Join(texts, "\n")
		if !strings.Contains(all, want) || !strings.Contains(all, "; 2000 keys") || elements["path"] < 10 {
			t.Errorf("%s has texts %q and elements %v, want %q", file, texts, elements, want)
		}
		if len(data) > 60_000 || strings.Contains(string(data), "NaN") || strings.Contains(string(data), "Inf") {
			t.Errorf("%s: %d bytes, or a number that is none", file, len(data))
		}
	}
	// A line for each cell: two levels, filters ignored and on, perhaps cold too; three numbers of bits.
	warm, cold := strings.Count(out.String(), " warm "), strings.Count(out.String(), " cold ")
	if warm != 2*2+3 || cold != 4 && cold != 0 {
		t.Errorf("%d warm and %d cold cells in\n%s", warm, cold, out.String())
	}
}

func TestRun_Usage(t *testing.T) {
	dir, keys := t.TempDir(), writeLines(t, "%03d", 300, 2)
	if err := os.WriteFile(keys+"0", []byte("001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"-nonsense", "flag provided but not defined: -nonsense; -h lists"},
		{"-o r word", `unexpected argument "word"`},
		{"-o " + filepath.Join(keys, "below") + " -short -keys " + keys + " -absent " + keys + "0", "-o: mkdir"},
		{"-o " + dir + " -short -keys " + keys, "-keys and -absent go together"},
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
func TestMakeFigures_Interrupted(t *testing.T) {
	c := tiny(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.makeFigures(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("makeFigures: %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
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

// Two passes make one cell: means by lookups, and an error where counts that must repeat
// do not.
func TestCell_Add(t *testing.T) {
	pass := func(lookups int, blocks float64, preads int64) benchmark.Counts {
		return benchmark.Counts{
			Lookups: lookups, Seconds: 1, BlocksPerLookup: blocks, ReadsPerLookup: blocks, Preads: preads, DeviceBytes: 2 * preads,
		}
	}
	c := &cell{}
	for _, r := range []benchmark.Counts{pass(100, 2, 200), pass(300, 4, 1200)} {
		if err := c.add(r, shale.Metrics{}); err != nil {
			t.Fatal(err)
		}
	}
	if c.Lookups != 400 || c.Blocks != 3.5 || c.BlockReads != 3.5 || c.Preads != 3.5 || c.DeviceBytes != 7 || c.Seconds != 2 {
		t.Errorf("%+v", c)
	}
	want := "the same 400 lookups looked into 3.5 blocks each, and then into 3"
	if err := c.add(pass(400, 3, 0), shale.Metrics{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("other counts of the same lookups: %v", err)
	}
	if err := c.add(pass(300, 3, -1), shale.Metrics{}); err != nil || c.Preads != -1 || c.DeviceBytes != -1 {
		t.Errorf("a pass without the system's counts: %v, %+v", err, c)
	}
}

// What an axis cannot show, or what has no measurement, is left out, and drawn without it.
func TestDraw_Zeros(t *testing.T) {
	data := &benchmark.Dataset{Name: "<none>"}
	cells := []*cell{{X: 1}, {X: 1, Filters: true}}
	for _, draw := range []func(*benchmark.Dataset, []*cell) figure{drawLevels, drawBits} {
		svg, err := draw(data, cells).draw()
		if err != nil {
			t.Fatal(err)
		}
		if texts, _ := svgtest.Parse(t, svg); !strings.Contains(strings.Join(texts, "\n"), "<none>") {
			t.Errorf("texts %q", texts)
		}
	}
}

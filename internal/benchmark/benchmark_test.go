package benchmark

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
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

// smallRun loads 4000 keys and measures every cell for a moment.
func smallRun(t *testing.T) (*summary, *loaded, *Dataset) {
	t.Helper()
	d, err := fileLines(writeLines(t, "key%06d", 4000, 2), writeLines(t, "key%06d.", 4100, 2))
	if err != nil {
		t.Fatal(err)
	}
	l, err := load(t.Context(), filepath.Join(t.TempDir(), "store"), d, 10)
	if err != nil {
		t.Fatal(err)
	}
	r := newSummary(d, l)
	if err := r.measureAll(t.Context(), l, d, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	return r, l, d
}

func TestSmallRun(t *testing.T) {
	r, l, d := smallRun(t)
	// The last loaded key and the last 101 absent ones: key007998. to key008198.
	if len(d.Present) != 4000 || len(d.Absent) != 3999 || d.Outside != 101 {
		t.Errorf("%d present, %d absent, %d outside, want 4000, 3999, 101", len(d.Present), len(d.Absent), d.Outside)
	}
	if r.Runs == 0 || r.Levels[0].Level != 0 || r.Levels[0].Runs < level0Runs {
		t.Errorf("levels %+v: want %d runs in level 0 at least", r.Levels, level0Runs)
	}
	if len(r.Results) == 0 || len(r.Results)+4 < len(cellsFor(l.RawBytes)) {
		t.Fatalf("%d results of %d cells", len(r.Results), len(cellsFor(l.RawBytes)))
	}
	for _, c := range r.Results {
		if c.Lookups == 0 || c.Nanos <= 0 || c.LookupsPerSec <= 0 {
			t.Errorf("%v: %d lookups, %v ns each", c.cell, c.Lookups, c.Nanos)
		}
		switch {
		case c.Absent && c.Filters && (c.BlocksPerLookup > 0.2 || c.FilterMemory == 0 || c.PredictedFPR <= 0):
			t.Errorf("%v: %.3f blocks, %d bytes of filters", c.cell, c.BlocksPerLookup, c.FilterMemory)
		case c.Absent && !c.Filters && (c.BlocksPerLookup < 1 || c.FilterMemory != 0):
			t.Errorf("%v: %.3f blocks, %d bytes of filters", c.cell, c.BlocksPerLookup, c.FilterMemory)
		case !c.Absent && c.BlocksPerLookup < 0.99:
			t.Errorf("%v: %.3f blocks for a key that is there", c.cell, c.BlocksPerLookup)
		}
	}
}

func TestSummary_Text(t *testing.T) {
	r := &summary{
		Dataset: "a loaded, b asked for", Present: 1000, Absent: 500, Outside: 7, Both: 3,
		Store: &loaded{Took: 2 * time.Second, RawBytes: 16e6}, Runs: 2, Tables: 5, TableSize: 8e6,
		Levels:  []Level{{Level: 0, Runs: 1, Tables: 1, Bytes: 1e6, Filter: 250, Bits: 24, FPR: 1e-5}, {Level: 6, Runs: 1, Tables: 4, Bytes: 7e6, Filter: 1000, Bits: 9.5, FPR: 0.01}},
		Machine: Machine{"plan9", "mips", 3, "go1"},
		Notes:   []string{"a note"},
	}
	r.Results = []*result{
		{cell: cell{Absent: true, Cache: "1/16"}, Counts: Counts{Lookups: 100, BlocksPerLookup: 2.5, ReadsPerLookup: 1.25, Preads: 125, DeviceBytes: 51200, BytesPerLookup: 4096}},
		{cell: cell{Absent: true, Cache: "1/16", Filters: true}, Counts: Counts{Lookups: 100, BlocksPerLookup: 0.02, ReadsPerLookup: 0.01, Preads: -1, DeviceBytes: -1, FilterMemory: 1250, MeasuredFPR: 0.02, PredictedFPR: 0.01}},
	}
	var out strings.Builder
	r.printStore(&out)
	r.printResults(&out)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"1000 keys loaded in 2.0 s; 500 absent keys to ask for, all inside the key range (left out: 7 outside it, 3 that are loaded too)",
		"16.0 MB of keys and values in 8.0 MB of tables; plan9/mips, 3 CPUs, go1",
		"L6 1 4 7.00 0.001 9.5 1.0000 %",
		"all 2 5 8.00 0.001 10.0 1.0010 %",
		"absent 1/16 warm ignored 0 0 2.5000 1.2500 1.2500 4096 512 -",
		"absent 1/16 warm on 0 0 0.0200 0.0100 - 0 - 2.000 %",
		"a note",
		"looks into 2.50 blocks without filters and 0.0200 with them; it reads 1.2500 and 0.0100 blocks from files.",
		"10.0 bits a key. False positives a lookup: 2.000 % measured, 1.000 % predicted.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text has no %q:\n%s", want, out.String())
		}
	}
	r.Results = r.Results[:1]
	if s := r.sentence(); s != "" {
		t.Errorf("sentence() of half of the results = %q, want none", s)
	}
}

func TestRun_JSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	c := config{
		keys: writeLines(t, "key%05d", 500, 2), absent: writeLines(t, "key%05d", 900, 1),
		json: path, dir: filepath.Join(t.TempDir(), "store"), bits: 10, limit: time.Millisecond,
	}
	if err := run(t.Context(), c, io.Discard); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
	for name, want := range map[string]float64{"present_keys": 500, "absent_keys": 450, "absent_keys_loaded_too": 450} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	first := got["results"].([]any)[0].(map[string]any)
	for _, name := range []string{
		"absent", "filters", "cache", "cold", "lookups", "ns_per_lookup", "blocks_per_lookup",
		"block_reads_per_lookup", "block_reads", "pread_calls", "device_bytes", "measured_fpr",
	} {
		if _, ok := first[name]; !ok {
			t.Errorf("a result has no %q: %v", name, first)
		}
	}
	if _, err := os.Stat(filepath.Join(c.dir, "CURRENT")); err != nil {
		t.Errorf("the store was not kept in -dir: %v", err)
	}
	if err := run(t.Context(), c, io.Discard); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second run in the same -dir: %v, want a refusal", err)
	}
}

func TestRun_BadInput(t *testing.T) {
	keys, missing := writeLines(t, "key%03d", 10, 1), filepath.Join(t.TempDir(), "none")
	tests := []struct {
		name string
		c    config
		want string
	}{
		{"no such keys", config{keys: missing, absent: keys, bits: 10, limit: 1}, "-keys: open "},
		{"no such absent", config{keys: keys, absent: missing, bits: 10, limit: 1}, "-absent: open "},
		{"only keys", config{keys: keys, bits: 10, limit: 1}, "-keys and -absent go together"},
		{"only absent", config{absent: keys, bits: 10, limit: 1}, "-keys and -absent go together"},
		{"empty keys", config{keys: writeFile(t, "\n\r\n"), absent: keys, bits: 10, limit: 1}, "there are no keys to load"},
		{"empty absent", config{keys: keys, absent: writeFile(t, ""), bits: 10, limit: 1}, "no key is left to ask for: 0 are loaded too, 0 lie outside"},
		{"the same list twice", config{keys: keys, absent: keys, bits: 10, limit: 1}, "no key is left to ask for: 10 are loaded too"},
		{"all outside", config{keys: keys, absent: writeFile(t, "a\nz\n"), bits: 10, limit: 1}, "2 lie outside the range"},
		{"no filters", config{keys: keys, absent: keys, limit: 1}, "-bits 0"},
		{"no time", config{keys: keys, absent: keys, bits: 10}, "-time 0s"},
		{"json in no folder", config{keys: keys, absent: keys, bits: 10, limit: 1, json: filepath.Join(missing, "x.json")}, "-json: open "},
		{"json is a folder", config{keys: keys, absent: keys, bits: 10, limit: 1, json: t.TempDir()}, "-json: open "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(t.Context(), tt.c, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run: %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestRun_Usage(t *testing.T) {
	for args, want := range map[string]string{
		"-nonsense": "flag provided but not defined: -nonsense; -h lists",
		"word":      `unexpected argument "word"`,
	} {
		err := Run(t.Context(), []string{args}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %s: %v, want %q", args, err, want)
		}
	}
	var help strings.Builder
	if err := Run(t.Context(), []string{"-h"}, &help); err != nil || !strings.Contains(help.String(), "-keys file") {
		t.Errorf("-h: %v, %s", err, help.String())
	}
}

func TestGoLines_SplitsAll(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all Go sources")
	}
	d, err := goLines()
	if err != nil {
		t.Skipf("no Go sources here: %v", err)
	}
	if n := len(d.Present) + len(d.Absent); n < 100_000 || len(d.Present) < n*48/100 || len(d.Present) > n*52/100 {
		t.Errorf("%d present, %d absent: want halves", len(d.Present), len(d.Absent))
	}
	seen := make(map[string]bool, len(d.Present))
	for _, r := range d.Present {
		seen[string(r.Key)] = true
	}
	for _, key := range d.Absent {
		if seen[string(key)] {
			t.Fatalf("%q is loaded and asked for as absent", key)
		}
	}
}

func TestCompare_Mismatch(t *testing.T) {
	at := func(reads int64) procIO { return procIO{known: true, reads: reads} }
	tests := []struct {
		name   string
		gets   uint64
		blocks uint64
		after  procIO
		want   string // in the error; empty: none
	}{
		{"equal", 100, 50, at(151), ""}, // 50 blocks, and the count itself
		{"a few of the runtime's", 100, 50, at(151 + 64), ""},
		{"reads that the store did not count", 100, 50, at(151 + 65), "counted 50 block reads, the operating system 115"},
		{"blocks that were not read", 100, 50, at(150), "counted 50 block reads, the operating system 49"},
		{"no count by the system", 100, 50, procIO{}, ""},
		{"lookups not counted", 99, 50, at(151), "100 lookups were made, the store counted 99"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Counts{Lookups: 100, BlockReads: tt.blocks, Preads: -1}
			err := r.compare(tt.gets, at(100), tt.after)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("compare: %v, want %q", err, tt.want)
			}
		})
	}
}

// A wrong answer ends the benchmark.
func TestAsk_WrongAnswer(t *testing.T) {
	db, err := shale.Open("store", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("here"), nil); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		keys   string
		absent bool
		n      int
		want   string
	}{
		{"here", false, 1, ""},
		{"a b c", true, 3, ""},
		{"a here", true, 1, `wrong answer: Has("here") = true`},
		{"here a", false, 1, `wrong answer: Has("a") = false`},
	} {
		n, err := ask(t.Context(), db, bytes.Fields([]byte(tt.keys)), tt.absent, later)
		if n != tt.n || (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("ask(%q, absent %v) = %d, %v, want %d, %q", tt.keys, tt.absent, n, err, tt.n, tt.want)
		}
	}
	if n, err := ask(t.Context(), db, [][]byte{[]byte("a")}, true, time.Now().Add(-time.Second)); n != 0 || err != nil {
		t.Errorf("ask after the deadline = %d, %v, want 0, nil", n, err)
	}
}

// DropCaches works, or says that the system or the file system can't do it.
func TestDropCaches(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "000001.sst"), make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := DropCaches(dir); err != nil && !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("DropCaches: %v, want nil or ErrUnsupported", err)
	}
	if err := DropCaches(filepath.Join(dir, "none")); err == nil {
		t.Error("DropCaches of a folder that is not there: no error")
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	p := &Progress{w: &out, what: "loading", total: 200, begin: time.Now().Add(-10 * time.Second)}
	p.At(50)
	p.At(60) // too soon to be drawn
	if got := out.String(); !strings.HasPrefix(got, "\rloading [███████░") || !strings.Contains(got, " 25 %, 30 s left") || strings.Count(got, "\r") != 1 {
		t.Errorf("the bar: %q", got)
	}
	p.Done()
	out.Reset()
	(&Progress{w: &out, what: "reading"}).At(0)
	if got := out.String(); got != "\rreading\x1b[K" {
		t.Errorf("without a total: %q", got)
	}
	(&Progress{total: 1}).At(1) // no terminal: prints nothing
}

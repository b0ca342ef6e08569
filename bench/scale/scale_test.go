package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// The tests' own program opens stores in new processes too.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		exit(runChild(dir, os.Stdout))
		return
	}
	os.Exit(m.Run())
}

// quick returns the options of a short run.
func quick(t *testing.T, args ...string) config {
	t.Helper()
	c, err := parse(append([]string{"-dir", t.TempDir(), "-time", "1ms"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each row is measured in stores of both kinds, and nothing is left behind.
func TestRun(t *testing.T) {
	c := quick(t, "-tables", "200", "-keys", "100000")
	var out strings.Builder
	if err := run(t.Context(), c, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range append(rowNames(), "200 tables", "100,000 keys") {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), " 0.0 ns") {
		t.Errorf("something was not measured:\n%s", &out)
	}
	if names, err := os.ReadDir(c.dir); err != nil || len(names) > 0 {
		t.Errorf("-dir has %v after the run, %v; want nothing", names, err)
	}
}

// What a table and a key take in memory is about what is known of them.
func TestMeasure_Memory(t *testing.T) {
	c := quick(t, "-tables", "200", "-rows", "Open|Go heap")
	figures, err := c.measure(t.Context(), c.stores[0], c.dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, limits := range map[string][2]float64{
		"Go heap for each table": {500, 10_000}, "of that, filters": {1, 4}, "of that, indexes": {0.1, 4},
		"Open, in a new process": {100e-6, 100},
	} {
		if f := figures[name]; f < limits[0] || f > limits[1] {
			t.Errorf("%s: %v, want %v to %v", name, f, limits[0], limits[1])
		}
	}
}

// Only the rows that were asked for are printed.
func TestRun_Rows(t *testing.T) {
	c := quick(t, "-tables", "200", "-rows", "^(seek|Snapshot.*)$")
	var out strings.Builder
	if err := run(t.Context(), c, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range rowNames() {
		want := name == "seek" || name == "Snapshot and Close"
		if got := strings.Contains(out.String(), "\n  "+name+" "); got != want {
			t.Errorf("row %q is printed: %t, want %t", name, got, want)
		}
	}
}

// A store that was kept is used again, and is as it was. One that was interrupted is made
// again. Files of others are left alone.
func TestMake_AgainAndInterrupted(t *testing.T) {
	c := quick(t, "-tables", "200", "-keep", "-rows", "flush|Ingest of 1 ")
	s := c.stores[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.make(ctx, c.dir, io.Discard); !errors.Is(err, context.Canceled) {
		t.Fatalf("a make that is interrupted: %v", err)
	}
	left := filepath.Join(c.dir, s.name(), storeDir, "left")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is there
		var progress strings.Builder
		if err := run(t.Context(), c, io.Discard, &progress); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(left)
		if again := strings.Contains(progress.String(), "made again"); again == (err == nil) {
			t.Errorf("progress %q, the file of the store that was interrupted: %v", &progress, err)
		}
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &session{spec: s, ctx: t.Context(), path: filepath.Join(c.dir, s.name(), storeDir), budget: time.Millisecond}
	if _, err := m.measure(chosen(regexp.MustCompile("^Metrics$"))); err != nil {
		t.Errorf("the store after two runs that write: %v", err)
	}

	other := spec{tables: 300, keys: 300 * keysPerTable}
	file := filepath.Join(c.dir, other.name(), "mine")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := other.make(t.Context(), c.dir, io.Discard); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("make where other files are: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// Bad options give errors that name them.
func TestParse_Errors(t *testing.T) {
	for args, want := range map[string]string{
		"-tables 10":               "-tables: 10 is below 200",
		"-tables 10000010":         "-tables: 10000010 is above",
		"-tables 1001":             "-tables: 1001 is not a multiple of 10",
		"-tables many":             `-tables: "many" is not a whole number`,
		"-keys 5":                  "-keys: 5 is below 100000",
		"-keys 1000000001":         "-keys: 1000000001 is above",
		"-tables= -keys=":          "there is no store to measure",
		"-rows (":                  "-rows: error parsing regexp",
		"-rows nothing":            `-rows "nothing" matches none of the rows, which are: Open`,
		"-time 0s":                 "-time is 0s",
		"-keep":                    "give one with -dir",
		"-unknown":                 "-h lists the options",
		"argument":                 `unexpected argument "argument"`,
		"-tables 1000 -keys=1000x": "1000x",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	var help strings.Builder
	if _, err := parse([]string{"-h"}, &help); err != flag.ErrHelp || !strings.Contains(help.String(), "-tables numbers") {
		t.Errorf("-h: %v\n%s", err, &help)
	}
}

// Keys are in the order of their numbers, and absent keys lie between them.
func TestKey(t *testing.T) {
	var before []byte
	for _, i := range []int{0, 1, 2, 9, 10, 1 << 20, maxKeys} {
		for nth := range 4 {
			k := key(nil, i, nth)
			if bytes.Compare(before, k) >= 0 || len(k) != keySize {
				t.Errorf("key %d, %d is %q, after %q", i, nth, k, before)
			}
			before = k
		}
	}
	if string(key(nil, 5, 1)) != "0000000000000015" {
		t.Errorf("key 5, 1 is %q", key(nil, 5, 1))
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(test.v); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.v, got, test.want)
		}
	}
}

// Ratios are those to the first column, and figures have a unit that suits them.
func TestPrint(t *testing.T) {
	c := quick(t)
	all := []column{
		{spec{tables: 1000}, map[string]float64{"Put": 2e-6, "seek": 0, "Go heap for each table": 2048}},
		{spec{tables: 100_000}, map[string]float64{"Put": 3e-6, "seek": 1.5, "Go heap for each table": 512}},
		{spec{keys: 2_000_000}, map[string]float64{"Put": 4e-9}},
	}
	var out strings.Builder
	if err := c.print(&out, all); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"1,000 tables 100,000 tables Go heap for each table 2.0 KiB 512 B 0.25 × seek 0.0 ns 1.50 s - Put 2.00 µs 3.00 µs 1.50 ×",
		"2,000,000 keys Put 4.0 ns",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the output has no %q:\n%s", want, &out)
		}
	}
}

// A file of an unsynced file system can be written through memory, and is there afterwards.
func TestUnsynced(t *testing.T) {
	fault := faultfs.New(vfs.Default, func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpSync || op == vfs.OpSyncDir {
			return errors.New("a sync")
		}
		return nil
	})
	fs, path := unsynced{fault}, filepath.Join(t.TempDir(), "file")
	f, err := fs.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), fs.SyncDir(filepath.Dir(path)), f.Close()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// The time of a thread goes on in small steps. A clock of ticks would make a figure a multiple of them.
func TestThreadTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first, ok := threadTime()
	if !ok {
		t.Skip("the system does not tell the time of a thread")
	}
	steps := 0
	for now := first; now < first+2*time.Millisecond; {
		next, _ := threadTime()
		if next > now {
			steps++
		}
		now = next
	}
	if steps < 50 {
		t.Errorf("%d steps in 2 ms", steps)
	}
}

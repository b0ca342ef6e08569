package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A terminal gets the beginning of a large value, unless the mode asks for all of it. A pipe gets all of it.
func TestGet_LargeValue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	value := strings.Repeat("x", largeValue+1)
	if _, notes, st := call(value, "-C", dir, "put", "k", "-"); st != Found {
		t.Fatal(notes)
	}
	for _, c := range []struct {
		toScreen bool
		args     []string
		most     int
	}{
		{true, []string{"get", "k"}, 400},
		{true, []string{"scan"}, 400},
		{true, []string{"get", "k", "--mode", "raw"}, math.MaxInt},
		{true, []string{"scan", "--mode", "json"}, math.MaxInt},
		{false, []string{"get", "k"}, math.MaxInt},
	} {
		var out, notes bytes.Buffer
		st := Run(Environment{
			Args: append([]string{"-C", dir}, c.args...), Out: &out, Err: &notes, ToScreen: c.toScreen,
			Getenv: func(string) string { return "" },
		})
		whole := strings.Contains(out.String(), value)
		if st != Found || whole != (c.most == math.MaxInt) || out.Len() > c.most {
			t.Errorf("%v to a terminal %t: status %d, %d bytes, %s", c.args, c.toScreen, st, out.Len(), &notes)
		}
		if said := strings.Contains(out.String()+notes.String(), "64.0 KiB"); said == whole {
			t.Errorf("%v to a terminal %t: it says the size: %t", c.args, c.toScreen, said)
		}
	}
}

// scan --largest finds the largest values, in order, and of equal ones the first.
func TestScan_Largest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := db.Put(fmt.Appendf(nil, "k%02d", i), make([]byte, i*37%50)); err != nil { // each size twice
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	out, notes, st := call("", "-C", dir, "scan", "--largest", "3", "--mode", "csv")
	if want := "key,size\nk27,49\nk77,49\nk04,48\n"; out != want || st != Found {
		t.Errorf("%q, %s, want %q", out, notes, want)
	}
}

// space says about how many entries lie in a part of the keys: a block's worth of them more or less, and exactly how
// many if they are few.
func TestSpace_OfAPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, &shale.Options{TableSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	err = db.Ingest(t.Context(), func(yield func(key, value []byte) bool) {
		for i := 0; i < n && yield(fmt.Appendf(nil, "k%05d", i), fmt.Appendf(nil, "%d", i*i)); i++ {
		}
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
		off  int
	}{
		{[]string{"k0"}, 10_000, 200},
		{[]string{"k19"}, 1_000, 200},
		{[]string{"--from", "k05000", "--to", "k07500"}, 2_500, 200},
		{[]string{"--from", "k18000"}, 2_000, 200},
		{[]string{"--from", "k19999"}, 1, 0},
		{[]string{"k0423"}, 10, 0},
		{[]string{"k04231"}, 1, 0},
		{[]string{"--from", "k02345", "--to", "k02400"}, 55, 0},
		{[]string{"x"}, 0, 0},
	} {
		out, notes, st := call("", append([]string{"-C", dir, "space", "--mode", "csv"}, c.args...)...)
		var entries, size int
		line := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
		if _, err := fmt.Sscanf(line, "in all,%d,%d,", &entries, &size); err != nil || st != Found {
			t.Fatalf("%v: %q, %s, %v", c.args, out, notes, err)
		}
		if entries < c.want-c.off || entries > c.want+c.off || size < 5*entries || size > 50*entries {
			t.Errorf("%v: %d entries of %d bytes, want about %d", c.args, entries, size, c.want)
		}
	}
}

// An import that leaves many runs says so, and one that leaves few does not.
func TestImport_AdvisesCompact(t *testing.T) {
	db, err := shale.Open(filepath.Join(t.TempDir(), "db"), &shale.Options{CompactionWorkers: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // of no use after the test
	var out bytes.Buffer
	i := &importing{s: &Session{DB: db, Printer: output.Printer{Out: bufio.NewWriter(&out)}}}
	for runs := range manyRuns + 1 {
		i.adviseCompact()
		if err := i.s.Out.Flush(); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(out.String(), "may ask 8 runs"); said != (runs == manyRuns) {
			t.Errorf("with %d runs it says %q", runs, &out)
		}
		if err := db.Put([]byte("k"), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

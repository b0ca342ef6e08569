package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A short run writes, reads and probes, prints its lines, and leaves nothing behind.
func TestRun(t *testing.T) {
	for _, store := range []string{"shale", "pebble", "bbolt"} {
		dir := t.TempDir()
		c, err := parse([]string{"-store", store, "-dir", dir, "-t", "600ms", "-every", "100ms", "-probe", "5ms", "-n", "1000", "-readers", "2", "-memtable", "65536"}, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := run(t.Context(), c, &out); err != nil {
			t.Fatalf("%s: %v", store, err)
		}
		t.Logf("\n%s", out.String())
		if lines := strings.Count(out.String(), "\n"); lines < 8 {
			t.Errorf("%s: %d lines of output", store, lines)
		}
		for _, want := range []string{store, "longest", "disk fsync", " found"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in the output", store, want)
			}
		}
		if strings.Contains(out.String(), "\nput                     0 ") || strings.Contains(out.String(), ", 0 found") {
			t.Errorf("%s: nothing was written, or nothing found", store)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left behind, %v", store, left, err)
		}
	}
}

// A rate is kept.
func TestRun_Rate(t *testing.T) {
	c, err := parse([]string{"-dir", t.TempDir(), "-t", "500ms", "-rate", "1000", "-n", "100"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{config: c, space: spaceOf(c), store: c.kind.New()}
	begin := time.Now()
	if err := b.runIn(t.Context(), c.dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n, most := b.puts.all.Count(), 1+int(1000*time.Since(begin).Seconds()); n == 0 || int(n) > most {
		t.Errorf("%d puts, want at most %d at 1000 a second", n, most)
	}
}

// A run that is interrupted ends at once, with its summary.
func TestRun_Interrupted(t *testing.T) {
	c, err := parse([]string{"-dir", t.TempDir(), "-t", "1h"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, c, &out); err != nil || !strings.Contains(out.String(), "disk fsync") {
		t.Errorf("run = %v, output %q", err, out.String())
	}
}

func TestParse_Refused(t *testing.T) {
	for _, args := range [][]string{
		{"-store", "none"}, {"-t", "0"}, {"-every", "-1s"}, {"-probe", "0"}, {"-n", "0"}, {"-readers", "-1"},
		{"-value", "8"}, {"-memtable", "1"}, {"-rate", "-1"}, {"more"}, {"-unknown"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("parse(%q): no error", args)
		}
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A small run has all rows, its figures are possible ones, and nothing is left behind.
func TestBucket(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if err := run([]string{"-n", "50000", "-ask", "3000", "-part", "4", "-dir", dir}, &out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	for _, want := range []struct {
		row         string
		values      int
		least, most float64 // GETs
	}{
		{"opening again, and what follows by itself", 3, 1, 1000},
		{"an absent key, right after that", 3, 0.0003, 2},
		{"an absent key, as many once more", 3, 0, 2},
		{"an absent key by Get", 3, 0.01, 3},
		{"a present key", 3, 0.01, 3},
		{"a scan of all", 3, 1, 1000},
		{"a compaction of all", 1, 1, 1000},
	} {
		line := regexp.MustCompile(`(?m)^\| ` + want.row + ` .*$`).FindString(out.String())
		cells := regexp.MustCompile(`\| ([0-9.]+), `).FindAllStringSubmatch(line, -1)
		if len(cells) != want.values {
			t.Errorf("%s: %d values, want %d", want.row, len(cells), want.values)
		}
		for _, cell := range cells {
			var gets float64
			if _, err := fmt.Sscan(cell[1], &gets); err != nil || gets < want.least || gets > want.most {
				t.Errorf("%s: %v GETs, %v; want %v to %v", want.row, gets, err, want.least, want.most)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

// Arguments that can't be meant are refused.
func TestBucket_Arguments(t *testing.T) {
	for _, args := range [][]string{{"-n", "5"}, {"-ask", "1"}, {"-bits", "0"}, {"-block", "1"}, {"-part", "1"}, {"more"}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

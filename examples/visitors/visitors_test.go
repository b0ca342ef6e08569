package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// The counts of made-up visits are those of a map, but for the false positives, and the comment
// of the command shows what it prints.
func TestRun(t *testing.T) {
	testenv.SkipRace(t)
	var out strings.Builder
	if err := run(48, 10_000, &out); err != nil {
		t.Fatal(err)
	}
	hours, most := 0, 0
	for line := range strings.Lines(out.String()) {
		var day, hour string
		var visits, n, exact int
		if _, err := fmt.Sscanf(line, "%s %s %d visits; %d visitors in 24 hours; by the map %d", &day, &hour, &visits, &n, &exact); err == nil {
			hours++
			most = max(most, exact)
			if n > exact || float64(n) < 0.99*float64(exact) || visits == 0 {
				t.Errorf("%d visitors, by the map %d", n, exact)
			}
		}
	}
	_, summary, _ := strings.Cut(out.String(), "The window took ")
	var size, memory int
	if _, err := fmt.Sscanf(summary, "%d bytes, and its false positive rate is 0.13 %%. The map took %d", &size, &memory); err != nil {
		t.Fatal(err)
	}
	if hours != 48 || most < 50_000 || size == 0 || memory < 10*size {
		t.Errorf("%d hours, %d visitors, %d bytes and %d of the map", hours, most, size, memory)
	}
	b, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "//\t2031-11-2"); ok {
			shown++
			if !strings.Contains(out.String(), text) {
				t.Errorf("the comment shows, but the command does not print: %s", text)
			}
		}
	}
	if shown != 2 {
		t.Errorf("%d counts in the comment", shown)
	}
}

// A visitor counts for 24 hours, also over a pause, and late visits count as of now.
func TestCounter(t *testing.T) {
	begin := time.Date(2031, 11, 21, 8, 0, 0, 0, time.UTC)
	k, err := newCounter(begin, 1000)
	if err != nil {
		t.Fatal(err)
	}
	visits := map[int][]string{0: {"anna", "bert", "anna"}, 1: {"anna"}, 12: {"carl"}, 300: {"dora"}}
	wants := map[int]float64{0: 2, 1: 2, 11: 2, 12: 3, 23: 3, 24: 2, 25: 1, 35: 1, 36: 0, 299: 0, 300: 1, 323: 1, 324: 0}
	for hour := range 330 {
		for i, visitor := range visits[hour] {
			at := begin.Add(time.Duration(hour)*time.Hour + 17*time.Minute - time.Duration(i)*time.Hour) // some are late
			if err := k.visit(at, visitor); err != nil {
				t.Fatal(err)
			}
		}
		want, ok := wants[hour]
		if got := k.count(begin.Add(time.Duration(hour+1) * time.Hour)); ok && (got < want-0.1 || got > want+0.1) {
			t.Errorf("hour %d: %.2f visitors, want %v", hour, got, want)
		}
	}
}

package main

import (
	"bytes"
	"strings"
	"testing"
)

// The program measures all figures in small, and those that do not depend on the machine are reached.
func TestFigures(t *testing.T) {
	var out, notes bytes.Buffer
	c, err := parse([]string{"-n", "50000", "-part", "3", "-ask", "5000", "-dir", t.TempDir(), "-bucket", t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	all, err := run(t.Context(), c, &out, &notes)
	if err != nil {
		t.Fatalf("%v\n%s", err, &notes)
	}
	t.Logf("\n%s", &out)
	counts := 0
	for _, f := range all {
		if f.requests {
			counts++
		}
		if f.requests && !f.reached {
			t.Errorf("%s: %s, the goal is %s", f.name, f.value, f.goal)
		}
		if !strings.Contains(out.String(), f.name) {
			t.Errorf("the table lacks %q", f.name)
		}
	}
	if counts < 6 || len(all) < 11 {
		t.Errorf("%d figures, %d of them about requests", len(all), counts)
	}
}

// Arguments that can't be meant are refused.
func TestFigures_Arguments(t *testing.T) {
	for _, args := range [][]string{{"-n", "5"}, {"-ask", "1"}, {"-part", "1"}, {"-table", "-1"}, {"more"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

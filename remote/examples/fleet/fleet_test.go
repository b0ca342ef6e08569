package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFleet runs the fleet with few URLs, and checks what the phases have cost.
func TestFleet(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), fleetOptions{Made: 8000, Checkers: 3, Out: &out}); err != nil {
		t.Fatal(err)
	}
	column := regexp.MustCompile(`\s{2,}`)
	rows := make(map[string][]string)
	for line := range strings.Lines(out.String()) {
		fields := column.Split(strings.TrimSpace(line), -1)
		rows[fields[0]] = fields
	}
	gets := func(phase string) int {
		row := rows[phase]
		if len(row) < 3 {
			t.Fatalf("no phase %q in\n%s", phase, out.String())
		}
		n, err := strconv.Atoi(row[2])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := gets("unknown URLs"); n > 3*4000*2/100 {
		t.Errorf("%d GETs for 12,000 lookups of unknown URLs", n)
	}
	if n := gets("known URLs again"); n != 0 {
		t.Errorf("%d GETs for URLs that are cached", n)
	}
	if n := gets("open"); n == 0 {
		t.Error("opening made no GET: the counts are wrong")
	}
}

// TestFleet_NoURLs gives the name of a file that is not there.
func TestFleet_NoURLs(t *testing.T) {
	if err := run(t.Context(), fleetOptions{URLs: "nowhere.txt", Checkers: 1}); err == nil {
		t.Error("a list that is not there is accepted")
	}
}

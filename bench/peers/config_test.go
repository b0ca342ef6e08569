package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	c, err := parse([]string{"-n", "50000000", "-only", "shale", "-workloads", "fill,missing", "-keys", "structured"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.n != 50_000_000 || !slices.Equal(c.only, []string{"shale"}) || !slices.Equal(c.workloads, []string{"fill", "missing"}) {
		t.Errorf("parsed %+v", c)
	}
	if want := c.dataBytes() * 3 / 2; c.cache != want {
		t.Errorf("cache %d, want %d for all data", c.cache, want)
	}
	if !c.asks("random", "missing") || c.asks("random") {
		t.Errorf("asks(random, missing) = %v, asks(random) = %v", c.asks("random", "missing"), c.asks("random"))
	}
}

func TestParse_Defaults(t *testing.T) {
	c, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.cache != 1<<30 || c.rounds != 5 || !slices.Equal(c.workloads, workloadNames) {
		t.Errorf("parsed %+v", c)
	}
	known := map[string]bool{"fill": true}
	for _, p := range phases {
		for _, w := range p.workloads {
			known[w.name] = true
		}
	}
	for _, w := range workloadNames {
		if !known[w] {
			t.Errorf("no phase has the workload %q", w)
		}
	}
	if len(known) != len(workloadNames) {
		t.Errorf("phases have %v, -workloads %v", known, workloadNames)
	}
}

func TestParse_Refuses(t *testing.T) {
	for _, args := range []string{
		"-n 10", "-n 0", "-reads 0", "-rounds 0", "-keys other", "-workloads miss", "-only leveldb", "extra", "-what", "-workloads=",
	} {
		if c, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("parse(%q) = %+v, want an error", args, c)
		}
	}
}

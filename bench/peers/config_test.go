package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/bench/peers/internal/stores"
)

func TestParse(t *testing.T) {
	c, err := parse([]string{"-n", "50000000", "-only", "shale", "-workloads", "read,ycsb-e", "-keys", "structured"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.n != 50_000_000 || !slices.Equal(c.only, []string{"shale"}) || !slices.Equal(c.workloads, []string{"read", "ycsb-e"}) {
		t.Errorf("parsed %+v", c)
	}
	if want := c.dataBytes() * 3 / 2; c.cache != want {
		t.Errorf("cache %d, want %d for all data", c.cache, want)
	}
	if got := findGroup("ycsb").asked(c.workloads); len(got) != 0 {
		t.Errorf("of the group ycsb %v are asked for, want none", got)
	}
	if got := findGroup("read").asked(c.workloads); !slices.Equal(got, findGroup("read").workloads) {
		t.Errorf("of the group read %v are asked for, want all", got)
	}
}

func TestParse_Defaults(t *testing.T) {
	c, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.n != 5_000_000 || c.cache != 1<<30 || c.rounds != 3 || !slices.Equal(c.only, stores.Names()) {
		t.Errorf("parsed %+v", c)
	}
	large, err := parse([]string{"-value", "4096"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if large.n >= 1_000_000 || large.n < 100_000 {
		t.Errorf("%d entries of 4096 bytes", large.n)
	}
	short, err := parse([]string{"-short", "-rounds", "2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if short.n != shortEntries || short.rounds != 2 || short.quiet() >= c.quiet() {
		t.Errorf("parsed %+v", short)
	}
}

func TestParse_Table(t *testing.T) {
	c, err := parse([]string{"-table", "-budget", "3"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.rounds != 5 || c.budget != 3 || !slices.Equal(c.workloads, tableWorkloads) || slices.Contains(c.only, "badger") || c.only[0] != "shale" {
		t.Errorf("parsed %+v", c)
	}
}

func TestParse_Refuses(t *testing.T) {
	for _, args := range []string{
		"-n 10", "-n -1", "-rounds 0", "-overwrites 0", "-seconds 0", "-budget 0", "-keys other", "-workloads miss", "-only leveldb", "-value 8", "extra", "-what",
	} {
		if c, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("parse(%q) = %+v, want an error", args, c)
		}
	}
}

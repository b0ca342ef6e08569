package sstable

import (
	"bytes"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// TestRulesInUse follows the filters of two tables: as long as one of them is in memory with a
// rule, the rule is in use.
func TestRulesInUse(t *testing.T) {
	fixed := base.PrefixRule{Length: 2}
	b, info := writeFile(t, WriterOptions{FilterBits: 24, PrefixRule: fixed}, manyEntries(t))
	rules := new(RulesInUse)
	open := func(rules *RulesInUse, noFilter bool) *Reader {
		r, err := Open(bytes.NewReader(b), ReaderOptions{Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum, Rules: rules, NoFilter: noFilter})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	check := func(what string, want ...base.PrefixRule) {
		t.Helper()
		if got := rules.All(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are in use, want %v", what, got, want)
		}
	}
	check("no table")
	first := open(rules, true)
	check("a table without its filter")
	if _, err := first.LoadFilter(false); err != nil {
		t.Fatal(err)
	}
	second := open(rules, false)
	check("two filters", fixed)
	if !first.DropSecondUnit() {
		t.Fatal("the filter has no second unit")
	}
	second.DropFilter()
	check("a first unit", fixed)
	if _, err := second.LoadFilter(false); err != nil {
		t.Fatal(err)
	}
	first.Retire()
	first.Retire()
	check("one of two tables retired", fixed)

	// The sidecar's filter knows no prefixes.
	beside, want := writeSidecarOf(t, open(nil, false), sidecarNum, 20)
	s := NewSidecar(bytes.NewReader(beside), want)
	l, err := second.ReadSidecar(s)
	if err != nil {
		t.Fatal(err)
	}
	check("a sidecar is only read", fixed)
	second.SetSidecar(s, l)
	check("a filter without prefixes took the place of the last one")
	second.Retire()
	check("no table again")
}

package sstable

import (
	"bytes"
	"slices"
	"sync"
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

// TestRulesInUse_Concurrent loads and drops filters of two rules. In the end
// those are in use that were loaded last, and no other.
func TestRulesInUse_Concurrent(t *testing.T) {
	rules := new(RulesInUse)
	all := []base.PrefixRule{{Length: 1}, {Length: 2}, {Count: 1, Delimiter: '/'}, {}}
	var wg sync.WaitGroup
	for _, rule := range all {
		for g := range 2 {
			wg.Go(func() {
				for range 500 {
					rules.add(rule, 1)
					if rule != (base.PrefixRule{}) && !slices.Contains(rules.All(), rule) {
						t.Errorf("%v is not in use, although it was added", rule)
					}
					rules.add(rule, -1)
				}
				rules.add(rule, g)
			})
		}
	}
	wg.Wait()
	got := slices.Clone(rules.All())
	slices.SortFunc(got, func(a, b base.PrefixRule) int { return a.Length - b.Length })
	if want := []base.PrefixRule{all[2], all[0], all[1]}; !slices.Equal(got, want) {
		t.Errorf("%v are in use, want %v", got, want)
	}
}

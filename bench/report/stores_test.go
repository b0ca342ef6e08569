package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/benchmark"
)

func testRecords(n int) []benchmark.Record {
	var all []benchmark.Record
	for i := range n {
		all = append(all, benchmark.Record{Key: fmt.Appendf(nil, "key%07d", 2*i), Value: fmt.Appendf(nil, "a value of %d, and %x", i, i*i*7919)})
	}
	return all
}

// The tree that was asked for is made, and the same each time.
func TestRecipe_Tree(t *testing.T) {
	records := testRecords(6000)
	var absent [][]byte
	for i := range 500 {
		absent = append(absent, fmt.Appendf(nil, "key%07d.", 2*(i*11+20)))
	}
	all := []int{1, 2, 3}
	if testing.Short() {
		all = []int{2}
	}
	for _, levels := range all {
		var blocks [2]float64
		for i := range blocks {
			s, err := recipe{levels: levels, bits: 10}.make(t.Context(), t.TempDir(), records)
			if err != nil {
				t.Fatal(err)
			}
			if s.runs != levels || len(s.levels) != levels || s.keys != len(records) {
				t.Errorf("%d runs in %+v, want %d", s.runs, s.levels, levels)
			}
			off, on, err := s.compare(t.Context(), way{limit: time.Minute}, absent)
			if err != nil {
				t.Fatal(err)
			}
			if off.Blocks < float64(levels)-0.2 || off.Blocks > float64(levels) || on.Blocks > 0.1 {
				t.Errorf("%d levels: %v blocks without filters, %v with them", levels, off.Blocks, on.Blocks)
			}
			if off.BlockReads != off.Blocks || off.Lookups != 1000 || on.FilterBytes == 0 || off.FilterBytes != 0 {
				t.Errorf("filters ignored: %+v\non: %+v", off, on)
			}
			blocks[i] = off.Blocks + 1000*on.Blocks
		}
		if blocks[0] != blocks[1] {
			t.Errorf("%d levels: the counts of two stores of the same records differ: %v", levels, blocks)
		}
	}
}

// What is measured has all of its filters in memory, or is not measured.
func TestPass_FiltersMissing(t *testing.T) {
	s, err := recipe{levels: 1, bits: 10}.make(t.Context(), t.TempDir(), testRecords(1000))
	if err != nil {
		t.Fatal(err)
	}
	s.shape.FilterMemory++
	w := way{filters: true, limit: time.Minute}
	if _, _, err := s.pass(t.Context(), w, nil); err == nil || !strings.Contains(err.Error(), "of filters are in memory") {
		t.Errorf("pass: %v", err)
	}
}

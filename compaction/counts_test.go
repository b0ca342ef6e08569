package compaction

import (
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/sstable"
)

// TestMerge_WhatItCosts counts the reads, writes and allocations
// of a merge of four tables. Each input byte is read once, writes
// are large, and nothing is allocated for an entry or a block.
func TestMerge_WhatItCosts(t *testing.T) {
	const n, each = 4, 10_000
	var tables []*sstable.Reader
	var files []*benchFile
	size := int64(0)
	for i := range n {
		r, f := benchTable(t, base.FileNum(i+1), i*each, (i+1)*each, 0)
		tables, files, size = append(tables, r), append(files, f), size+int64(len(f.b))
	}
	got, out := mergeOnce(t, tables)
	if got.in != n*each || got.out != n*each {
		t.Errorf("%d entries in and %d out, want %d", got.in, got.out, n*each)
	}
	read := int64(0)
	for _, f := range files {
		read += f.read
	}
	if limit := size + size/50; read > limit {
		t.Errorf("%d bytes read of tables of %d, want at most %d", read, size, limit)
	}
	if limit := int(out.written/(200<<10)) + 2; out.writes > limit { // and the footer's
		t.Errorf("%d writes for %d bytes, want at most %d", out.writes, out.written, limit)
	}
	allocs := -1.0
	if !testenv.Race { // which lets pools forget
		allocs = testing.AllocsPerRun(3, func() { mergeOnce(t, tables) })
	}
	if blocks := n * each / 34; allocs > float64(blocks)/4 {
		t.Errorf("%.0f allocations for %d entries in %d blocks, want none for each", allocs, n*each, blocks)
	}
	t.Logf("%d bytes in tables, %d read; %d written in %d calls; %.0f allocations", size, read, out.written, out.writes, allocs)
}

package shale

import (
	"testing"
	"unsafe"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/memtable"
)

// What every lookup reads shares no cache line with what lookups, iterators and writers write
// all the time. Otherwise each of these writes would take the line away from all processors.
//
// The sequence number that is visible is the exception: lookups read it and every group of writes
// changes it, because that is its purpose.
func TestLayout_ReadApartFromWritten(t *testing.T) {
	testenv.CheckApart(t, new(DB),
		[]string{"hasher", "cache", "files", "mems.view", "falsePositives", "commits.env",
			"counters.tables", "counters.lookups", "counters.iterators", "counters.prefixNegative"},
		[]string{
			// The leader of the commit queue, for each group.
			"commits.visible", "commits.mu", "commits.pending", "commits.led", "commits.lastSeq", "commits.group",
			"commits.payloads", "commits.claims", "commits.torn", "commits.together", "commits.gather", "commits.syncs",
			"commits.ops", "commits.bytes", "pacer",
			// Snapshots and their Close.
			"snapshots",
		})
	testenv.CheckApart(t, new(DB), []string{"commits.visible"}, []string{"commits.mu", "commits.pending", "commits.led", "commits.lastSeq"})

	testenv.CheckApart(t, new(tree.Table), []string{"Meta", "Reader"}, []string{"Negatives", "FalsePositives"})

	testenv.CheckApart(t, new(memtable.Memtable),
		[]string{"filter", "hasher", "memory"},
		[]string{"pivots", "mu", "staged", "size", "n"})
	testenv.CheckApart(t, new(memtable.Memtable), []string{"pivots"}, []string{"mu", "size", "n"})
}

// Structs of which there are many side by side fill their cache lines, so that what is written at
// the end of one is not in the line of what is read at the beginning of the next.
func TestLayout_FillsLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("structs are filled up for words of 64 bits: machines of 32 bits have few processors")
	}
	for name, size := range map[string]uintptr{
		"tree.Table":    unsafe.Sizeof(tree.Table{}),
		"memtable.Pins": unsafe.Sizeof(memtable.Pins{}),
	} {
		if size != 64 && size != 128 {
			t.Errorf("%s has %d bytes; want 64 or 128, which the allocator aligns to lines", name, size)
		}
	}
	stripes := make([]lookupCounters, 2)
	end := uintptr(unsafe.Pointer(&stripes[0].falsePos[NumLevels-1])) + unsafe.Sizeof(stripes[0].falsePos[0])
	if gap := uintptr(unsafe.Pointer(&stripes[1])) - end; gap < 63 {
		t.Errorf("%d bytes between two stripes of what lookups count", gap)
	}
}

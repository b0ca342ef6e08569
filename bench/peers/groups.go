package main

import (
	"slices"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

const keyBytes = data.KeySize

// A group is what one process does with one store, opened once or twice.
type group struct {
	name      string
	workloads []string
	from      origin
	run       func(*child) error
	needs     stores.Ability // of a store
	value     int            // bytes of a value, if not those that the run has
}

// largeEntries is how many entries of large values a group has at most.
const largeEntries = 200_000

// An origin is where the store of a group comes from.
type origin int

const (
	empty   origin = iota
	filled         // what fillrandom has filled in the first round; it is read only
	scratch        // a copy of that
)

// fillGroup fills the store that other groups read.
const fillGroup = "fillrandom"

// groups come in the order in which they run.
var groups = []group{
	{"fillseq", []string{"fillseq"}, empty, (*child).fillOne, 0, 0},
	{fillGroup, []string{"fillrandom"}, empty, (*child).fillOne, 0, 0},
	{"fillbatch", []string{"fillbatch"}, empty, (*child).fillOne, stores.Updates, 0},
	{"fillsync", []string{"fillsync"}, empty, (*child).fillOne, 0, 0},
	{"fillsync16", []string{"fillsync16"}, empty, (*child).fillOne, 0, 0},
	{"fillttl", []string{"fillttl"}, empty, (*child).fillOne, stores.Expiry, 0},
	{"fill8k", []string{"fill8k"}, empty, (*child).fillOne, stores.Updates, 8 << 10},
	{"reopen", []string{"reopen", "reopen-first", "reopen-cold", "reopen-cold-first"}, scratch, (*child).reopens, 0, 0},
	{"read", []string{"readrandom", "readmissing", "readmissing2", "readmissing-many", "seekrandom", "readseq", "readreverse"}, filled, (*child).readCached, 0, 0},
	{"readsmall", []string{"readrandom-small", "readmissing-small", "seekrandom-small", "readseq-small", "seekrandom-cold"}, filled, (*child).readSmall, 0, 0},
	{"levels", []string{"readmissing-levels", "readrandom-levels", "seekrandom-levels"}, scratch, (*child).readLevels, stores.Updates, 0},
	{"readwhilewriting", []string{"readwhilewriting"}, scratch, (*child).readWhileWriting, stores.Updates, 0},
	{"update", []string{"overwrite", "readseq-overwritten", "deleterandom", "readdeleted"}, scratch, (*child).update, stores.Updates, 0},
	{"ycsb", []string{"ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d"}, scratch, (*child).ycsb, stores.Updates, 0},
	{"ycsbscan", []string{"ycsb-e"}, scratch, (*child).ycsb, stores.Updates, 0},
	{"ranges", []string{"get-before", "deleterange-scan", "get-ranges", "deleteall"}, scratch, (*child).ranges, stores.RangeDeletes, 0},
	{"txn", []string{"txnview", "txncounter", "txncounter16", "txntransfer", "txntransfer16"}, empty, (*child).transactions, stores.Transactions, 0},
	{"txnsync", []string{"txncounter16-sync", "txntransfer16-sync"}, empty, (*child).transactions, stores.Transactions, 0},
}

// writerSuffix marks the second result of readwhilewriting.
const writerSuffix = ", the writer"

func findGroup(name string) *group {
	i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return &groups[i]
}

func workloadNames() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.workloads...)
	}
	return names
}

// asked is the part of the workloads that a list of names of workloads and
// groups has; of an empty list all.
func (g *group) asked(list []string) []string {
	if len(list) == 0 || slices.Contains(list, g.name) {
		return g.workloads
	}
	var names []string
	for _, w := range g.workloads {
		if slices.Contains(list, w) {
			names = append(names, w)
		}
	}
	return names
}

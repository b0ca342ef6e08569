package main

import "slices"

// A store is one engine with its data.
type store interface {
	name() string
	open(dir string, m mode) error
	put(key, value []byte) error
	flush() error  // what is in memory becomes a run of level 0
	settle() error // flush, and wait until no compaction runs or is due
	ways() []way
	counts() counts
	levels() ([]level, error)
	close() error
}

// A mode says what a store is opened for.
type mode struct {
	memtable    int64
	cache       int64 // of blocks
	filterCache int64 // more cache for engines that keep filters and indexes in it
	compactions bool  // automatic ones
	reading     bool  // nothing will be written
}

// A way is one way to look keys up in a store.
type way struct {
	name   string
	reader func() (reader, error)
}

// A reader is used by one goroutine.
type reader interface {
	get(key []byte) (size int, err error) // of the value; absent: there is none
	close() error
}

const absent = -1

// counts are what an engine has counted since it was opened; unknown where it
// does not count.
type counts struct {
	blockReads     int64 // blocks that were not in the cache
	falsePositives int64 // filters that said 'maybe' where the key was not
	predicted      float64
}

const unknown = -1

// A level is the shape of one level; 0 where the engine does not tell.
type level struct {
	Level        int     `json:"level"`
	Runs         int     `json:"runs"` // tables that overlap, or a level of tables that don't
	Tables       int     `json:"tables"`
	Bytes        int64   `json:"bytes"`
	Entries      uint64  `json:"entries,omitempty"`
	FilterBits   float64 `json:"filter_bits,omitempty"` // a key
	PredictedFPR float64 `json:"predicted_fpr,omitempty"`
}

// level0Runs is how many tables of a store may hold any key, below the memtable
// and above the levels.
func level0Runs(levels []level) int {
	i := slices.IndexFunc(levels, func(l level) bool { return l.Level == 0 })
	if i < 0 {
		return 0
	}
	return levels[i].Runs
}

// newStores lists all engines; shale, with which the others are compared,
// comes first.
func newStores() []store {
	return append([]store{&shaleStore{}, &pebbleStore{}, &goleveldbStore{}}, optionalStores()...)
}

func storeNames() []string {
	var names []string
	for _, s := range newStores() {
		names = append(names, s.name())
	}
	return names
}

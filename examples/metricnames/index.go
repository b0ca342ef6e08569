package main

import (
	"sync"

	"github.com/shaledb/shale"
)

// A verdict says what the index has made of a sample's name.
type verdict int

const (
	known   verdict = iota // the name was in the index
	added                  // it was not, and now is
	refused                // it was not, and there were too many new names in this second
)

// An index is the set of all names that a time series database has series for. Any number of
// goroutines may use it at once.
type index struct {
	db    *shale.DB
	limit int // new names a second

	mu     sync.Mutex
	second int64 // the second of the last new name
	fresh  int   // new names in this second
}

// openIndex opens the index in a folder. Its caller closes the store.
func openIndex(dir string, limit int, filterBits float64) (*index, error) {
	// A name that a power cut takes away is new again at its next sample, so that a new name
	// need not wait for the disk.
	db, err := shale.Open(dir, &shale.Options{Durability: shale.SyncPeriodic, FilterBits: filterBits, CacheSize: 1 << 20})
	return &index{db: db, limit: limit}, err
}

// has reports whether the name of a sample is known. If it is not, the filters of the store's tables say so
// nearly always, and nothing is read.
func (x *index) has(name string) (bool, error) { return x.db.Has([]byte(name)) }

// add enters a name for which has said no a moment ago, if the limit of the second allows it. Of
// several calls with the same new name, one returns added.
func (x *index) add(name string, second int64) (verdict, error) {
	if !x.allow(second) {
		return refused, nil
	}
	inserted, err := x.db.PutIfAbsent([]byte(name), nil)
	if err != nil || !inserted {
		return known, err
	}
	return added, nil
}

// allow counts a new name, and reports whether the limit of the second allows it.
// A name that several goroutines bring at the same moment may count more than once.
func (x *index) allow(second int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if second > x.second { // samples that are late count for the newest second
		x.second, x.fresh = second, 0
	}
	if x.fresh == x.limit {
		return false
	}
	x.fresh++
	return true
}

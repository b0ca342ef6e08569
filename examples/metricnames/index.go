package main

import (
	"context"
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
	limit int // new names a second; 0: any number

	mu     sync.Mutex
	second int64 // the second of the last new name
	fresh  int   // new names in this second
}

// openIndex opens the index in a folder. Its caller closes it.
func openIndex(dir string, limit int, o shale.Options) (*index, error) {
	// A name that a power cut takes away is new again at its next sample, so that a new name
	// need not wait for the disk.
	o.Durability = shale.SyncPeriodic
	db, err := shale.Open(dir, &o)
	if err != nil {
		return nil, err
	}
	return &index{db: db, limit: limit}, nil
}

func (x *index) close() error { return x.db.Close() }

// has reports whether a name is known. If it is not, the filters of the store's tables say so
// nearly always, and nothing is read.
func (x *index) has(name string) (bool, error) { return x.db.Has([]byte(name)) }

// sample is called with the name of each sample and the second of its arrival. It adds the
// name to the index if it is new. Of several calls with the same new name, one returns added.
func (x *index) sample(name string, second int64) (verdict, error) {
	if there, err := x.has(name); there || err != nil {
		return known, err
	}
	return x.add(name, second)
}

// add is sample for a name that was absent a moment ago.
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
	if x.limit == 0 {
		return true
	}
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

// fill adds names without a limit, for a measurement, and merges the store's tables. It writes
// two of them that overlap. A single one would be moved to the last level as it is, with the
// filter of a young table, which has 24 bits a key where the last level has 10.
func (x *index) fill(ctx context.Context, names []string) error {
	for part := range 2 {
		var b shale.Batch
		for i := part; i < len(names); i += 2 {
			if err := b.Put([]byte(names[i]), nil); err != nil {
				return err
			}
		}
		if err := x.db.Write(ctx, &b); err != nil {
			return err
		}
		if err := x.db.Flush(ctx); err != nil {
			return err
		}
	}
	return x.db.Compact(ctx, shale.Range{})
}

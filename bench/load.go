package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shaledb/shale"
)

// A loaded store, closed, ready to be read under several options.
type loaded struct {
	dir       string
	Memtable  int64         `json:"memtable_bytes"`
	Took      time.Duration `json:"load_ns"`
	RawBytes  int64         `json:"raw_bytes"`  // of keys and values
	DataBytes int64         `json:"data_bytes"` // of uncompressed blocks, about
	Shape     shale.Metrics `json:"-"`
	filterOff bool
}

// level0Runs is how many runs are left in level 0 on purpose: a store in use
// has some, and each is one more place where an absent key might be.
const level0Runs = 3

// load writes the dataset in random order and lets compactions settle. The
// memtable is small for the data, so that the tree gets the depth that a store
// a thousand times larger has with the default.
func load(dir string, d *dataset, bits float64) (*loaded, error) {
	l := &loaded{dir: dir}
	for _, r := range d.Present {
		l.RawBytes += int64(len(r.key) + len(r.value))
	}
	l.Memtable = max(l.RawBytes/800, 16<<10)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(d.Present))
	tail := min(len(order)/2, int(float64(len(order))*float64(l.Memtable)/float64(l.RawBytes)/3*level0Runs))
	begin := time.Now()
	opts := shale.Options{
		MemtableSize: l.Memtable, TableSize: max(l.Memtable*8, 256<<10),
		FilterBits: bits, Durability: shale.SyncManual,
	}
	if err := l.write(&opts, d, order[:len(order)-tail], 1, len(order)); err != nil {
		return nil, err
	}
	opts.CompactionWorkers = -1
	if err := l.write(&opts, d, order[len(order)-tail:], level0Runs, len(order)); err != nil {
		return nil, err
	}
	l.Took = time.Since(begin)
	l.DataBytes = l.RawBytes
	return l, nil
}

// write puts records into the store in parts, each flushed at its end.
func (l *loaded) write(opts *shale.Options, d *dataset, order []int, parts, total int) error {
	db, err := shale.Open(l.dir, opts)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	bar := newProgress("loading", total)
	for part := range parts {
		for n, i := range order[len(order)*part/parts : len(order)*(part+1)/parts] {
			if err := db.Put(d.Present[i].key, d.Present[i].value); err != nil {
				return err
			}
			bar.at(n)
		}
		if err := db.Flush(ctx); err != nil {
			return err
		}
	}
	bar.done()
	if opts.CompactionWorkers >= 0 {
		if err := settle(db); err != nil {
			return err
		}
	}
	l.Shape = db.Metrics()
	return db.Close()
}

// settle waits until no compaction is under way or due.
func settle(db *shale.DB) error {
	for quiet := 0; quiet < 5; quiet++ {
		m := db.Metrics()
		if m.Compacting+m.Flushing > 0 {
			quiet = -1
		}
		if err := db.Err(); err != nil {
			return fmt.Errorf("while compactions settle: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

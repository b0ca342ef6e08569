package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// After Close a process has what it had before Open, and this much more heap
// at most.
const closedSlack = 8 << 20

// After a Compact of everything the tables take at most spaceFactor times the
// bytes of keys and values and spaceSlack; logs and manifest are bounded by
// the size of memtables.
const (
	spaceFactor = 1.5
	spaceSlack  = 1 << 20
)

// close closes the store, in some sessions under a storm, and checks that it
// lets go of all. Requires: no goroutine uses the session any more.
func (s *session) close() error {
	r := s.rand("close")
	if m := s.db.Metrics(); m.OpenIterators != 0 || m.OpenSnapshots != 0 {
		return violationf("%d iterators and %d snapshots are open, all were closed", m.OpenIterators, m.OpenSnapshots)
	}
	// Only what somebody reads may be in memory beyond the size of the cache.
	if err := s.eventually(func() bool { return s.db.Metrics().CacheMemory <= max(s.opts.CacheSize, 0) }); err != nil {
		return violationf("the cache, of %d bytes, holds %d that nobody reads: %v", s.opts.CacheSize, s.db.Metrics().CacheMemory, err)
	}
	s.checks.Add(1)
	if s.Last || !s.disk.hadStorm() && r.IntN(3) == 0 {
		if err := s.call("check of space", s.checkSpace); err != nil {
			return err
		}
	}
	if !s.Last && r.IntN(6) == 0 {
		s.disk.begin(harness.DrawStorm(r))
	}
	err := s.call("close", s.db.Close)
	if err != nil && !(s.disk.hadStorm() && harness.IsInjected(err)) {
		return fmt.Errorf("calling Close: %w", err)
	}
	if s.disk.stormy() {
		s.disk.end()
	}
	s.stop()
	s.db = nil
	return s.settleDown("Close")
}

// checkSpace compacts everything and compares what is on disk with what it must
// be.
func (s *session) checkSpace() error {
	ctx := context.Background()
	if err := s.db.Compact(ctx, shale.Range{}); err != nil {
		return fmt.Errorf("calling Compact: %w", err)
	}
	if err := s.db.Verify(ctx); err != nil {
		return fmt.Errorf("calling Verify: %w", err)
	}
	var m shale.Metrics
	var tables, entries, tombstones int64
	var files int64
	err := s.eventually(func() bool { // compactions may go on, and files go later
		m = s.db.Metrics()
		tables, entries, tombstones = 0, 0, 0
		for _, l := range m.Levels {
			tables += l.Bytes
			entries += int64(l.Entries)
			tombstones += int64(l.Tombstones)
		}
		files = usage(s.store, ".sst")
		return m.Compacting == 0 && m.Flushing == 0 && files == tables
	})
	if err != nil {
		return violationf("the tables have %d bytes, files of tables %d: %v\n%v", tables, files, err, m)
	}
	live, bytes := s.keys.live()
	s.checks.Add(1)
	if entries != live || tombstones != 0 {
		return violationf("%d keys are there; after Compact the tables have %d entries and %d tombstones\n%v", live, entries, tombstones, m)
	}
	if float64(tables) > spaceFactor*float64(bytes)+spaceSlack {
		return violationf("%d bytes of keys and values take %d bytes of tables after Compact\n%v", bytes, tables, m)
	}
	if rest := usage(s.store, "") - tables; rest > 5*s.opts.MemtableSize+8<<20 {
		return violationf("files other than tables take %d bytes with memtables of %d", rest, s.opts.MemtableSize)
	}
	return nil
}

// live returns the number of keys that are there, and the bytes of keys and
// values. Requires: nobody writes.
func (k *keyspace) live() (n, bytes int64) {
	var buf []byte
	for w, s := range k.sections {
		for slot := range s.slots {
			if v := s.at(slot).visible(); v != 0 {
				buf = appendKey(buf[:0], k.seed, w, slot)
				buf = appendValue(buf, k.seed, w, slot, v)
				n++
				bytes += int64(len(buf))
			}
		}
	}
	return n, bytes
}

// settleDown checks that the process has what it had before the store was open.
func (c *child) settleDown(after string) error {
	var now resources
	err := c.eventually(func() bool {
		runtime.GC()
		runtime.GC() // what pools keep is kept by one
		now = measure()
		return now.Goroutines <= c.base.Goroutines && now.Descriptors <= c.base.Descriptors && now.Heap <= c.base.Heap+closedSlack
	})
	c.checks.Add(1)
	if err != nil {
		return c.withStacks(violationf("after %s there is %+v; before Open there was %+v", after, now, c.base))
	}
	c.report(true)
	return nil
}

// calmDown makes a store writable again after a storm, if it was made
// read-only. Requires: no storm is under way, and nobody else begins one.
func (s *session) calmDown() {
	err := s.db.Err()
	if err == nil {
		return
	}
	if !harness.IsInjected(err) {
		s.fail(fmt.Errorf("calling Err: %w", err))
	}
	if err := s.call("resume", s.db.Resume); err != nil {
		s.fail(fmt.Errorf("calling Resume after a storm: %w", err))
	}
	s.resumes.Add(1)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A session is the use of a store between Open and Close.
type session struct {
	*child
	n     int
	opts  shale.Options
	disk  *disk
	store string
	db    *shale.DB
	pace  time.Duration // of the clients

	ctx  context.Context // ends when the session is to end
	stop context.CancelFunc
}

func (c *child) newSession(n int) *session {
	s := &session{child: c, n: n, store: filepath.Join(c.Dir, "store")}
	r := s.rand("options")
	s.disk = newDisk(r.IntN(2) == 0, &c.counts[faults])
	s.opts = s.options(r, s.disk)
	s.pace = between(r, time.Microsecond, time.Millisecond)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// options draws the options of an opening on fs.
func (s *session) options(r *rand.Rand, fs vfs.FS) shale.Options {
	o := harness.DrawScaled(r, fs)
	o.LockTimeout = 10 * time.Second // a child that is killed lets go of its lock a moment later
	o.OnEvent = s.event
	o.Shipping.HoldLogs = 0 // the session bounds the bytes of all files
	return o
}

// rand returns the random numbers of one part of the session.
func (s *session) rand(name string) *rand.Rand { return draws(s.Seed, name, s.Life, s.n) }

// event hears what the store does in the background.
func (s *session) event(e shale.Event) {
	switch {
	case e.Kind == shale.EventCorruption, e.Kind == shale.EventFilterUnusable && !harness.IsInjected(e.Err):
		s.fail(fmt.Errorf("event %v: %w", e.Kind, e.Err))
	case e.Err != nil && !harness.IsInjected(e.Err) && !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, shale.ErrClosed):
		s.fail(fmt.Errorf("event %v: %w", e.Kind, e.Err))
	}
}

// run uses the store for a time, or until the life is to end.
func (s *session) run(d time.Duration) error {
	if err := s.open(); err != nil {
		return err
	}
	timer := time.AfterFunc(d, s.stop)
	defer timer.Stop()
	defer context.AfterFunc(s.life, s.stop)()
	var all sync.WaitGroup
	for _, c := range s.clients {
		all.Go(func() {
			if err := s.use(c); err != nil {
				s.fail(fmt.Errorf("client %s, step %d: %w", c.name, c.step, err))
			}
		})
	}
	all.Go(s.observe)
	all.Go(s.upkeep)
	all.Go(s.weather)
	all.Wait()
	return s.close()
}

func (s *session) running() bool { return s.ctx.Err() == nil }

// pause waits, and reports whether the session goes on.
func (s *session) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// open opens the store and checks all that is in it.
func (s *session) open() error {
	r := s.rand("open")
	err := s.call("open", func() (err error) {
		s.db, err = shale.Open(s.store, &s.opts)
		return err
	})
	if err != nil {
		return fmt.Errorf("calling Open: %w", err)
	}
	s.counts[opens].Add(1)
	for _, c := range s.clients {
		if err := s.call("check", func() error { return c.found(s.db, r.IntN(2) == 0) }); err != nil {
			return err
		}
	}
	keys, _ := s.known()
	n := 0
	for _, err := range s.db.Scan(shale.Range{KeysOnly: true}) {
		if n++; err != nil {
			return err
		}
	}
	if n != keys {
		return violationf("%d keys are there; the clients have %d", n, keys)
	}
	return nil
}

// known returns the number of keys that are there, and the bytes of keys and values. Requires:
// nobody writes.
func (c *child) known() (keys int, bytes int64) {
	for _, cl := range c.clients {
		keys += cl.state.Len()
		for _, e := range cl.state.Entries() {
			bytes += int64(len(e.Key) + len(e.Value))
		}
	}
	return keys, bytes
}

// upkeep does what a program does besides reading and writing.
func (s *session) upkeep() {
	r := s.rand("upkeep")
	pace := between(r, 10*time.Millisecond, time.Second)
	source := harness.NewSource([]string{"", "c-", "f-", "g-0001", "z"})
	source.Rand, source.Exact = r, true
	for s.pause(time.Duration(r.Int64N(int64(2 * pace)))) {
		step, real := source.Draw(keeping), harness.NewReal(s.db)
		_ = s.call("upkeep", func() error { step.Do(&harness.Side{Store: real}); return nil }) // real has its error
		if real.Err != nil && !s.disk.excusesLate(real.Err) {
			s.fail(fmt.Errorf("upkeep: %s: %w", step, real.Err))
		}
		if m := s.db.Metrics(); m.CorruptionsMet != 0 || m.UnusableFilters != 0 && !s.disk.hadStorm() {
			s.fail(violationf("Metrics: %v", m))
		}
	}
}

// weather makes the disk fail now and then, if that is the session's lot, and
// the store writable again afterwards.
func (s *session) weather() {
	r := s.rand("storms")
	begins := !s.Last && r.IntN(3) > 0
	apart := between(r, 30*time.Millisecond, 5*time.Second)
	for {
		// While it is calm what the last storm has left may come to light.
		for until := time.Now().Add(between(r, apart/10, apart)); !begins || time.Now().Before(until); {
			if !s.pause(5 * time.Millisecond) {
				return
			}
			s.calmDown()
		}
		s.disk.begin(harness.DrawStorm(r))
		s.counts[storms].Add(1)
		s.pause(between(r, time.Millisecond, 300*time.Millisecond))
		if s.db.Err() != nil && r.IntN(4) == 0 {
			_ = s.call("storms", s.db.Resume) // it may fail, as all does
		}
		s.disk.end()
		if s.db.Err() != nil && r.IntN(3) == 0 {
			s.stop() // the store is closed and opened as it is
			return
		}
	}
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
	s.counts[resumes].Add(1)
}

// close closes the store, in some sessions under a storm, and checks that it
// lets go of all. Requires: no goroutine uses the session any more.
func (s *session) close() error {
	r := s.rand("close")
	if m := s.db.Metrics(); m.OpenIterators != 0 || m.OpenSnapshots != 0 {
		return violationf("%d iterators and %d snapshots are open, all were closed", m.OpenIterators, m.OpenSnapshots)
	}
	// Only what somebody reads may be in memory beyond the size of the cache.
	if err := eventually(func() bool { return s.db.Metrics().CacheMemory <= max(s.opts.CacheSize, 0) }); err != nil {
		return violationf("the cache, of %d bytes, holds %d that nobody reads: %v", s.opts.CacheSize, s.db.Metrics().CacheMemory, err)
	}
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
	return s.settleDown()
}

// After a Compact of everything the tables take at most spaceFactor times the
// bytes of keys and values and spaceSlack; logs and manifest are bounded by
// the size of memtables.
const (
	spaceFactor = 1.5
	spaceSlack  = 1 << 20
)

// checkSpace compacts everything and compares what is on disk with what it must
// be. Requires: nobody writes, and no commit is pending.
func (s *session) checkSpace() error {
	if err := s.db.Compact(context.Background(), shale.Range{}); err != nil {
		return fmt.Errorf("calling Compact: %w", err)
	}
	if err := s.db.Verify(context.Background()); err != nil {
		return fmt.Errorf("calling Verify: %w", err)
	}
	var m shale.Metrics
	var tables, entries, tombstones, files int64
	err := eventually(func() bool { // compactions may go on, and files go later
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
	keys, bytes := s.known()
	if entries != int64(keys) || tombstones != 0 {
		return violationf("%d keys are there; after Compact the tables have %d entries and %d tombstones\n%v", keys, entries, tombstones, m)
	}
	if float64(tables) > spaceFactor*float64(bytes)+spaceSlack {
		return violationf("%d bytes of keys and values take %d bytes of tables after Compact\n%v", bytes, tables, m)
	}
	if rest := usage(s.store, "") - tables; rest > 5*s.opts.MemtableSize+8<<20 {
		return violationf("files other than tables take %d bytes with memtables of %d", rest, s.opts.MemtableSize)
	}
	return nil
}

// After Close a process has what it had before Open, and this much more heap
// at most.
const closedSlack = 8 << 20

// has returns what the process has besides the keys that its clients know.
func (c *child) has() resources {
	r := measure()
	_, bytes := c.known()
	r.Heap -= min(r.Heap, uint64(bytes+bytes/4))
	return r
}

// settleDown checks that the process has what it had before the store was open.
func (s *session) settleDown() error {
	var now resources
	err := eventually(func() bool {
		runtime.GC()
		runtime.GC() // what pools keep is kept by one
		now = s.has()
		return now.Goroutines <= s.base.Goroutines && now.Descriptors <= s.base.Descriptors && now.Heap <= s.base.Heap+closedSlack
	})
	if err != nil {
		buf := make([]byte, 1<<20)
		return violationf("after Close there is %v; before Open there was %v\n%s", now, s.base, buf[:runtime.Stack(buf, true)])
	}
	s.report(report{Resources: now, Closed: true})
	return nil
}

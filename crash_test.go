package shale

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// crashLives are scripts for a store whose disk is crashed at every operation.
var crashLives = map[string]func(l *crashLife){
	"flush": func(l *crashLife) {
		l.open()
		for range 4 {
			l.write(12, 5)
			l.flush()
		}
		l.write(5, 0)
		l.close()
	},
	"compaction": func(l *crashLife) {
		l.open()
		for range 7 {
			l.write(30, 11)
			l.flush()
			l.idle()
		}
		l.compact()
		l.write(10, 3)
		l.compact()
		l.close()
	},
	"rotation": func(l *crashLife) {
		l.opts.MemtableSize = 4 << 10
		l.open()
		l.write(120, 7)
		l.write(40, 0)
		l.sync()
		l.write(60, 1)
		l.close()
	},
	"rotation without mapping": func(l *crashLife) {
		l.opts.testing.noMap, l.opts.MemtableSize = true, 4<<10
		l.open()
		l.write(120, 7)
		l.sync()
		l.write(60, 2)
		l.close()
	},
	"manifest roll": func(l *crashLife) {
		l.open()
		for range 8 {
			l.write(8, 3)
			l.rollManifest()
			l.flush()
		}
		l.close()
	},
	"open and close": func(l *crashLife) {
		for range 12 {
			l.open()
			l.write(4, 3)
			l.close()
		}
	},
	"checkpoint": func(l *crashLife) {
		l.open()
		l.write(40, 9)
		l.flush()
		l.write(10, 0)
		l.checkpoint("copy1")
		l.write(30, 4)
		l.checkpoint("copy2")
		l.compact()
		l.write(10, 0)
		l.close()
	},
	"filters beside tables": func(l *crashLife) {
		hash := l.opts.FilterHash // the first of them
		l.opts.FilterBits, l.opts.FilterMemory = -1, 0
		l.open()
		for range 3 {
			l.write(24, 7)
			l.flush()
			l.idle()
		}
		l.close()
		l.opts.FilterBits, l.opts.CompactionWorkers = 20, -1 // which could merge all tables that lack filters
		for i := range 2 {
			l.opts.FilterHash = (hash + FilterHash(i)) % (SipHash + 1)
			l.open()
			l.rebuildFilters()
			l.write(10, 3)
			l.flush()
			l.rollManifest()
			l.checkpoint(fmt.Sprint("copy", i))
			l.close()
		}
		l.opts.FilterHash = hash
		l.open()
		l.rebuildFilters()
		l.close()
		l.opts.CompactionWorkers = 1
		l.open()
		l.idle()
		l.compact()
		l.kill()
		l.open()
		l.close()
	},
	"ingest": func(l *crashLife) {
		for i := 3; i < 60; i += 4 {
			l.h.ingestible(i)
		}
		l.open()
		for round := range 6 {
			l.write(3, 2)
			l.ingest()
			if round%2 == 0 {
				l.write(3, 0)
				l.ingest()
			} else {
				l.write(3, 0)
				l.rollManifest()
				l.ingest()
				l.idle()
			}
		}
		l.write(2, 0)
		l.kill()
		l.open()
		l.checkNothingLost()
		l.write(1, 0)
		l.ingest()
		l.checkpoint("copy")
		l.compact()
		l.close()
	},
	"death of the process": func(l *crashLife) {
		for range 8 {
			l.open()
			l.checkNothingLost()
			l.write(11, 5)
			l.kill()
		}
		l.open()
		l.close()
	},
	"crash after crash": func(l *crashLife) {
		l.open()
		configs := vfs.CrashConfigs(l.seed)
		for i := range 10 {
			l.write(9, 4)
			l.crash(configs[(i*7+int(l.seed%24))%len(configs)])
			l.write(3, 2)
			if i%3 == 2 {
				l.flush()
			}
		}
		l.close()
	},
}

// A crashLife is a life whose disk is crashed at its operations, and each state
// then found is opened and checked.
type crashLife struct {
	life
	seed   uint64
	mem    *vfs.Mem
	states chan crashState
	share  share // of the pairs of an operation and a way to crash
	ops    atomic.Int64
}

// open opens the store, now and then with another durability.
func (l *crashLife) open() {
	l.t.Helper()
	l.opts.Durability = (l.opts.Durability + 1) % (SyncManual + 1)
	l.life.open()
}

// A crashState is a disk as a crash leaves it, and what it must hold.
type crashState struct {
	mem  *vfs.Mem
	what string
	seed uint64 // of the options that it is opened with
	claim
}

// crashConfigs returns all ways to crash.
func crashConfigs(seed uint64) []vfs.CrashConfig {
	posix := vfs.CrashConfigs(seed)
	all := slices.Clone(posix)
	for _, c := range posix {
		c.Journal = true
		all = append(all, c)
	}
	return all
}

// hook crashes the present disk at its operations from now on.
func (l *crashLife) hook() {
	mem := l.mem
	mem.OnOp(func(op vfs.Op, name string) {
		n := l.ops.Add(1)
		for j, c := range crashConfigs(l.seed + uint64(n)) {
			if !l.share.takes(uint64(n)<<8 | uint64(j)) {
				continue
			}
			// What is safe before the crash must be there; what is begun
			// after it may be.
			before := l.claim()
			s := crashState{mem: mem.Crash(c), claim: l.claim(), seed: l.seed + uint64(n)<<8 + uint64(j),
				what: fmt.Sprintf("%s: crash at operation %d (%v %s) with %v", l.name, n, op, name, c)}
			s.safe, s.copies = before.safe, before.copies
			l.states <- s
		}
	})
}

// crash makes the life go on with the disk as a crash leaves it.
func (l *crashLife) crash(c vfs.CrashConfig) {
	after := l.mem.Crash(c)
	l.mem.OnOp(nil)
	l.must("Close", l.db.Close())
	wantNoOpenFiles(l.t, l.mem)
	l.mem, l.opts.FS = after, after
	l.hook()
	l.open()
	before := l.claim()
	n, err := l.h.check(l.db, "a", before)
	if err != nil {
		l.t.Fatalf("%s: after a crash with %v: %v", l.name, c, err)
	}
	l.learn(func(c *claim) {
		lost := make(map[int]fate)
		for i, f := range c.lost {
			lost[i] = f
		}
		for i := n; i < c.begun; i++ {
			lost[i] = gone
		}
		c.safe, c.lost = c.begun, lost
	})
}

// kill ends the store as the death of its process does: nothing is synced, and
// what it wrote stays in the page cache.
func (l *crashLife) kill() {
	l.still()
	l.db.abandon()
	wantNoOpenFiles(l.t, l.mem)
}

// still returns when nothing works in the store any more.
func (l *crashLife) still() {
	if l.db != nil {
		l.db.cancel()
		l.db.background.Wait()
	}
}

// checkNothingLost checks that unsynced writes are there too.
func (l *crashLife) checkNothingLost() {
	l.t.Helper()
	c := l.claim()
	c.safe = c.begun
	if _, err := l.h.check(l.db, "a", c); err != nil {
		l.t.Fatalf("%s: after the death of the process: %v", l.name, err)
	}
}

// check opens the state, compares, uses it and opens it once more, each time
// with other options.
func (s crashState) check(h history) (err error) {
	opts := drawSeeded(s.mem, s.seed, 0)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; %s", err, optionsText(&opts))
		}
	}()
	var unusable atomic.Pointer[error]
	n := 0
	for round := range 2 {
		opts = drawSeeded(s.mem, s.seed, uint64(round))
		opts.OnEvent = func(e Event) {
			if e.Kind == EventFilterUnusable {
				unusable.Store(&e.Err)
			}
		}
		db, err := Open("db", &opts)
		if err != nil {
			return fmt.Errorf("Open, round %d: %w", round, err)
		}
		found, err := h.check(db, "a", s.claim)
		if bad := unusable.Load(); bad != nil && err == nil {
			err = *bad
		}
		if err == nil {
			err = strays(db)
		}
		switch {
		case err != nil:
		case round == 1 && found != n:
			err = fmt.Errorf("%d commits at first, %d after reopening", n, found)
		case round == 1:
			var has bool
			if has, err = db.Has([]byte("after")); !has && err == nil {
				err = fmt.Errorf("what was written after the crash is not there")
			}
		default:
			n = found
			var b Batch
			b.SetDurability(Durability(s.seed % 3))
			_ = b.Put([]byte("after"), []byte("x")) // far below every limit
			err = db.Write(context.Background(), &b)
		}
		if err == nil {
			err = db.Verify(context.Background())
		}
		if cerr := db.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if open := s.mem.OpenFiles(); open != 0 {
		return fmt.Errorf("%d files are left open", open)
	}
	return s.checkCopies(h)
}

// checkCopies opens the checkpoints that were durable at the crash.
func (s crashState) checkCopies(h history) error {
	for _, c := range s.copies {
		opts := drawSeeded(s.mem, s.seed, 2)
		opts.MustExist = true
		db, err := Open(c.dir, &opts)
		if err != nil {
			return fmt.Errorf("open checkpoint %s: %w", c.dir, err)
		}
		_, err = h.check(db, "a", claim{safe: c.n, begun: c.n, lost: s.lost})
		if cerr := db.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", c.dir, err)
		}
	}
	return nil
}

// The disk is crashed at every operation of some lives, under all policies: no
// durable write is lost, whole commits survive, up to some point and none
// beyond, and the store goes on.
func TestCrash_AtEveryOperation(t *testing.T) {
	testenv.SkipRace(t)
	checkLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	begin := time.Now()
	var states, ops int64
	share := shareOf(t, seed, 1./160)
	// Each life is lived with several options, if not all of its states are tried.
	rounds := uint64(1)
	if share.part < 1 {
		rounds = 3
		share.part /= 3
	}
	for round := uint64(0); round < rounds || time.Since(begin) < long; round++ {
		for name, script := range crashLives {
			n, o := crashEverywhere(t, name, script, seed+round, share)
			states, ops = states+n, ops+o
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d states at %d operations of %d lives, each with other options %d times or more, in %v; %v",
		states, ops, len(crashLives), rounds, time.Since(begin).Round(time.Millisecond), share)
}

// nameNumber returns a number for a name.
func nameNumber(name string) (n uint64) {
	for _, c := range []byte(name) {
		n = n*31 + uint64(c)
	}
	return n
}

// crashEverywhere runs one life and checks all states beside it.
func crashEverywhere(t *testing.T, name string, script func(*crashLife), seed uint64, share share) (states, ops int64) {
	l := &crashLife{seed: seed, mem: vfs.NewMem(), states: make(chan crashState, 64), share: share}
	l.t, l.name, l.h = t, name, newHistory("a", seed, 300)
	l.opts = drawSeeded(l.mem, seed, nameNumber(name))
	l.opts.CompactionWorkers = 1 // the scripts wait for compactions
	began := optionsText(&l.opts)
	defer func() {
		if t.Failed() {
			t.Logf("%s: %s", name, began)
		}
	}()
	var wg sync.WaitGroup
	var checked, failed atomic.Int64
	defer func() { states = checked.Load() }()
	defer wg.Wait()
	defer close(l.states)
	defer l.still() // of a life that failed in the middle
	for range 2 {
		wg.Go(func() {
			for s := range l.states {
				checked.Add(1)
				if err := s.check(l.h); err != nil && failed.Add(1) <= 3 {
					t.Errorf("%s (seed %d): %v; it was written with %s", s.what, seed, err, began)
				}
			}
		})
	}
	l.hook()
	script(l)
	l.mem.OnOp(nil)
	return 0, l.ops.Load()
}

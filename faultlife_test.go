package shale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A faultLife is a store on a disk with faults, used by a script that takes
// errors as they come and notes what each means for its writes.
type faultLife struct {
	h      history
	mem    *vfs.Mem
	faults *vfs.FaultFS
	opts   Options
	seed   uint64 // of the options
	noMap  bool
	db     *DB
	claim
	failed   map[int]bool // writes that failed since the store was opened; true: before they could be seen
	copies   int
	rebuilt  int // filters
	ingested bool
	used     map[base.Seq]string // batches met in logs since then, by their first sequence numbers

	fired   atomic.Int64 // faults so far
	first   atomic.Value // string: where the first was met
	closing atomic.Bool
	excused atomic.Bool // a fault met background work that Close was ending
	mu      sync.Mutex
	told    []error // what calls and events said
}

func newFaultLife(h history, seed uint64, noMap bool) *faultLife {
	f := &faultLife{h: h, mem: vfs.NewMem(), seed: seed, noMap: noMap}
	f.lost = make(map[int]fate)
	f.faults = vfs.NewFault(f.mem, nil)
	f.opts.FS = f.faults
	f.draw(0)
	return f
}

// draw draws the options of a part of the life. Each part calls for other filters
// than the one before.
func (f *faultLife) draw(part int) {
	f.opts = drawSeeded(f.opts.FS, f.seed, uint64(part))
	first := drawSeeded(nil, f.seed, 0)
	f.opts.FilterHash = (first.FilterHash + FilterHash(part)) % (SipHash + 1)
	f.opts.testing.noMap = f.noMap
	f.opts.OnEvent = func(e Event) { f.note(e.Err) }
}

// note keeps an error that the store has told of.
func (f *faultLife) note(err error) error {
	if err != nil {
		f.mu.Lock()
		f.told = append(f.told, err)
		f.mu.Unlock()
	}
	return err
}

// heard returns what note has kept so far.
func (f *faultLife) heard() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// lastHeard returns the newest of them.
func (f *faultLife) lastHeard() error {
	all := f.heard()
	return all[len(all)-1]
}

// inject makes operations fail.
func (f *faultLife) inject(fn vfs.InjectFunc) {
	f.faults.Inject(func(op vfs.Op, name string, n int64) error {
		err := fn(op, name, n)
		if err != nil {
			if f.fired.Add(1) == 1 {
				f.first.Store(fmt.Sprintf("%v of %s by\n%s", op, name, debug.Stack()))
			}
			if f.closing.Load() && strings.HasSuffix(name, ".sst") {
				f.excused.Store(true)
			}
		}
		return err
	})
}

// openWithin tries a few times to open the store.
func (f *faultLife) openWithin(attempts int) bool {
	for range attempts {
		if f.open() {
			return true
		}
	}
	return false
}

// run is the script: it comes by all that a store does to its disk. It returns
// what is wrong with the answers; errors that the faults explain are not.
func (f *faultLife) run() error {
	for part := range 3 {
		f.draw(part)
		if !f.openWithin(3) {
			return nil
		}
		if f.opts.FilterBits >= 0 {
			r, err := f.db.RebuildFilters(context.Background())
			_ = f.note(err) // what is not rebuilt is as it was
			f.rebuilt += r.Rebuilt
		}
		f.checkpoint()
		f.write(25, 4)
		f.settle(f.db.Flush(context.Background()))
		f.write(15, 0)
		if f.note(f.db.Sync()) == nil {
			f.safe = f.begun
		}
		f.write(10, 3)
		if err := f.checkAnswers(); err != nil {
			return fmt.Errorf("part %d: %w", part, err)
		}
		f.settle(f.db.Compact(context.Background(), Range{}))
		_ = f.note(f.db.Verify(context.Background())) // reads all: told is enough
		if f.write(5, 0); f.begun == faultIngest {
			f.ingest()
		}
		f.checkpoint()
		f.meetBatches() // Resume lets the log go that failed
		f.resume()
		f.write(10, 5)
		if err := f.meetBatches(); err != nil {
			return err
		}
		if err := f.checkAnswers(); err != nil {
			return fmt.Errorf("part %d: %w", part, err)
		}
		end := f.close
		switch part {
		case 1:
			end = f.kill
		case 2:
			return nil // the caller ends it
		}
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

// open opens the store, if it can.
func (f *faultLife) open() bool {
	f.failed, f.used = make(map[int]bool), make(map[base.Seq]string)
	db, err := Open("db", &f.opts)
	if f.note(err) != nil {
		return false
	}
	f.db = db
	return true
}

// close closes the store, if it is open, and checks that it lets go of all.
func (f *faultLife) close() error {
	if f.db != nil {
		f.closing.Store(true)
		if f.note(f.db.Close()) == nil {
			f.safe = f.begun
		}
		f.closing.Store(false)
		f.db = nil
	}
	if n := f.mem.OpenFiles(); n != 0 {
		return fmt.Errorf("%d files are left open", n)
	}
	return nil
}

// kill ends the store as the death of its process does, with a log that is not
// sealed and says nothing of having been synced.
func (f *faultLife) kill() error {
	f.settle(f.db.Flush(context.Background()))
	f.write(6, 0)
	f.db.cancel()
	f.db.background.Wait()
	f.db.abandon()
	f.db = nil
	return f.close()
}

// settle notes the outcome of a call that makes all durable.
func (f *faultLife) settle(err error) {
	if f.note(err) == nil {
		f.safe = f.begun
	}
}

// write makes the next n commits, each k-th synced; 0: none. Those that fail
// are unknown from now on: read back by the next Open, or not.
func (f *faultLife) write(n, k int) {
	for j := range n {
		i := f.begun
		b := f.h.written(i, k > 0 && j%k == k-1, f.opts.Durability)
		f.begun++
		if f.note(f.db.Write(context.Background(), b.Batch)) != nil {
			f.lost[i] = unknown
			// In a store that is not a SyncEach one, a synced write of which only
			// the sync failed was visible before, and stays so.
			f.failed[i] = !b.synced || f.opts.Durability == SyncEach
		} else if b.synced {
			f.safe = f.begun
		}
	}
}

// faultIngest is the commit that the script makes by Ingest.
const faultIngest = 120

// ingest makes the next commit by Ingest.
func (f *faultLife) ingest() {
	i := f.begun
	f.begun++
	if f.note(f.db.Ingest(context.Background(), f.h.sorted(i))) != nil {
		f.lost[i], f.failed[i] = unknown, true
	} else {
		f.safe, f.ingested = f.begun, true
	}
}

// checkpoint makes a checkpoint and opens it.
func (f *faultLife) checkpoint() {
	f.copies++
	dir := fmt.Sprint("copy", f.copies)
	if f.note(f.db.Checkpoint(dir)) != nil {
		return
	}
	if db, err := Open(dir, &f.opts); f.note(err) == nil {
		_ = f.note(db.Close())
	}
}

// resume leaves the read-only state, if it can. Writes that failed are undone
// then.
func (f *faultLife) resume() {
	if f.db.Err() == nil {
		return
	}
	if f.note(f.db.Resume()) == nil {
		f.forgetFailed(f.lost)
		f.safe = f.begun
	}
}

// forgetFailed marks the writes as gone that failed before anybody could see them.
func (f *faultLife) forgetFailed(lost map[int]fate) {
	for i, unseen := range f.failed {
		if unseen {
			lost[i] = gone
		}
	}
}

// meetBatches reads the logs that are there. A sequence number stands for one
// batch only, also if that has failed.
func (f *faultLife) meetBatches() error {
	names, err := f.mem.List("db")
	if err != nil {
		return err
	}
	var twice error
	for _, name := range names {
		typ, num, ok := base.ParseFileName(name)
		if !ok || typ != base.FileLog {
			continue
		}
		// A log that is being made or used again can't be read: never mind.
		_, _ = wal.Read(f.mem, "db", num, f.db.storeID, wal.ReadOptions{Known: -1, Salvage: true}, func(payload []byte) error {
			seq, _, err := decodeBatch(payload)
			if was, met := f.used[seq]; err == nil && met && was != string(payload) {
				twice = fmt.Errorf("%s: sequence number %d stands for a second batch: %.60q after %.60q", name, seq, payload, was)
			}
			f.used[seq] = string(payload)
			return nil
		})
	}
	return twice
}

// checkAnswers compares what the open store says: all that was acknowledged and
// nothing that failed, or an error.
func (f *faultLife) checkAnswers() error {
	c := claim{safe: f.begun, begun: f.begun, lost: maps.Clone(f.lost)}
	f.forgetFailed(c.lost)
	if _, err := f.h.check(f.db, "a", c); err != nil && !isInjected(f.note(err)) {
		return fmt.Errorf("the open store: %w", err)
	}
	return nil
}

func isInjected(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC)
}

// The ways in which a faultLife ends. In each the faults end too.
const (
	endReopen    = iota // it is closed on a healthy disk and opened again
	endCut              // the power is cut while it is in use
	endReopenCut        // it is closed on the bad disk, opened, used, and then the power is cut
	numEndings
)

// end ends the life and checks what is found.
func (f *faultLife) end(ending int, crash vfs.CrashConfig) error {
	found := f.mem
	c := f.claim
	c.safe = c.begun // the process ends, not the machine
	switch ending {
	case endReopen:
		f.faults.Inject(nil)
	case endCut:
		found = f.mem.Crash(crash)
		c.safe = f.safe
		f.faults.Inject(nil)
	}
	if err := f.close(); err != nil {
		return err
	}
	f.faults.Inject(nil)
	f.opts.FS = found
	f.draw(3)
	if !f.open() {
		return fmt.Errorf("with the faults gone: %w", f.lastHeard())
	}
	defer f.close()
	if err := f.checkFound(c); err != nil {
		return err
	}
	f.write(5, 5)
	if len(f.failed) > 0 {
		return fmt.Errorf("with the faults gone: %w", f.lastHeard())
	}
	if ending == endReopenCut {
		found = found.Crash(crash)
		f.opts.FS = found
	}
	if err := f.close(); err != nil {
		return err
	}
	f.draw(4)
	if !f.open() {
		return fmt.Errorf("the second time: %w", f.lastHeard())
	}
	c = f.claim
	c.safe = c.begun // the last write was synced, and with it all before
	if err := f.checkFound(c); err != nil {
		return fmt.Errorf("the second time: %w", err)
	}
	return nil
}

// checkFound checks what an Open on a healthy disk has found, and notes what
// became of the writes that failed.
func (f *faultLife) checkFound(c claim) error {
	if _, err := f.h.check(f.db, "a", c); err != nil {
		return fmt.Errorf("after reopening: %w", err)
	}
	_, present, err := f.h.read(f.db, "a")
	if err != nil {
		return err
	}
	for i := range f.begun {
		if present[i] {
			delete(f.lost, i)
		} else {
			f.lost[i] = gone
		}
	}
	return f.db.Verify(context.Background())
}

package linear

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A cut is the power cut, or the death of the process, that ends an epoch: at an operation of the
// disk, or when all clients are done.
type cut struct {
	w      *world
	config vfs.CrashConfig
	left   atomic.Int64 // operations until then
	once   sync.Once

	before, after int64 // the time around it
	mem           *vfs.Mem
}

// strict says that the process died, not the machine: then nothing is lost.
func (c *cut) strict() bool { return c.config == harness.KeepAll }

func (c *cut) arm() {
	c.w.mem.OnOp(func(vfs.Op, string) {
		if c.left.Add(-1) == 0 {
			c.now()
		}
	})
}

func (c *cut) now() {
	c.once.Do(func() {
		c.before = c.w.clock.Add(1)
		c.mem = c.w.mem.Crash(c.config)
		c.after = c.w.clock.Add(1)
		c.w.ended.Store(true)
	})
}

// newCut chooses a cut.
func (w *world) newCut(r *rand.Rand, most int) *cut {
	c := &cut{w: w, config: harness.KeepAll}
	if r.IntN(4) > 0 {
		configs := harness.CrashConfigs(r.Uint64())
		c.config = configs[r.IntN(len(configs))]
	}
	c.left.Store(1 + r.Int64N(int64(most)))
	return c
}

// runEpoch has the clients use the store, until they are done or the cut comes.
func (w *world) runEpoch(n int) {
	var working, others sync.WaitGroup
	w.ended.Store(false)
	for id := range clients {
		c := w.newClient(id)
		working.Go(func() { c.work(n) })
	}
	d := w.newClient(clients)
	others.Go(d.disturb)
	working.Wait()
	w.ended.Store(true)
	others.Wait()
	w.closer.Wait()
}

// closeEpoch runs an epoch in which the store is closed while it is used, and opens it again. What
// was done is there; what returned ErrClosed was not done.
func (w *world) closeEpoch(r *rand.Rand, n int) error {
	w.untilClose.Store(1 + r.Int64N(int64(clients*n)))
	w.runEpoch(n)
	w.untilClose.Store(0)
	if err := w.closeStore(); err != nil {
		return err
	}
	end := w.clock.Add(1)
	w.disk(w.mem)
	if err := w.open(r); err != nil {
		return err
	}
	w.figures.closes++
	return w.found("Close", true, end, end)
}

// closeStore closes the store, whose process is dead already.
func (w *world) closeStore() error {
	w.count()
	err := w.db.Close()
	if w.closing.Swap(false) {
		if !errors.Is(err, shale.ErrClosed) {
			return fmt.Errorf("a second Close returns %w", err)
		}
		err = w.closed
	}
	if n := w.mem.OpenFiles(); n != 0 {
		return fmt.Errorf("%d files are left open", n)
	}
	if w.faulty.Load() {
		return nil
	}
	return err
}

// cutEpoch runs an epoch that ends with a cut, and opens what is left.
func (w *world) cutEpoch(r *rand.Rand, n int) error {
	c := w.newCut(r, 4<<r.IntN(8))
	if r.IntN(3) == 0 {
		w.faulty.Store(true)
		at := 1 + r.Int64N(int64(2<<r.IntN(8)))
		cause := []error{syscall.EIO, syscall.EIO, syscall.ENOSPC}[r.IntN(3)]
		var logs atomic.Int64
		if w.opts.Shipping.Gate != nil && r.IntN(4) > 0 {
			w.gate.Refuse(at, harness.DrawRefusal(r))
			at = 0 // the disk does not fail
		}
		w.inject(func(op vfs.Op, name string, _ int64) error {
			writes := op == vfs.OpWrite || op == vfs.OpMapWrite || op == vfs.OpSync
			if writes && strings.HasPrefix(name, harness.Dir) && strings.HasSuffix(name, ".wal") && logs.Add(1) == at {
				return cause
			}
			return nil
		})
		c.left.Store(1 << 40) // the others see what the fault has left
	}
	c.arm()
	w.runEpoch(n)
	c.now()
	w.mem.OnOp(nil)
	w.gate.Pass()
	if err := w.closeStore(); err != nil {
		return err
	}
	if w.faulty.Swap(false) && c.strict() {
		c.mem = w.mem // what a failed sync has left unsynced can still be read
	}
	strict, before, after := c.strict(), c.before, c.after
	for again := true; again; {
		w.disk(c.mem)
		again = r.IntN(3) == 0 && !strict
		if again { // the power is cut again while the store is opened
			c = w.newCut(r, 40)
			c.arm()
		}
		if err := w.open(r); err != nil {
			return fmt.Errorf("Open after a crash with %v: %w", c.config, err)
		}
		if again {
			c.now()
			w.mem.OnOp(nil)
			if err := w.closeStore(); err != nil {
				return err
			}
		}
	}
	how := "crash"
	if strict {
		how = "death of the process"
		w.figures.reopens++
	} else {
		w.figures.crashes++
	}
	return w.found(how, strict, before, after)
}

// found reads what the store holds after an opening, and ends the epoch.
func (w *world) found(how string, strict bool, before, after int64) error {
	state, err := harness.Read(w.db)
	if err == nil {
		err = w.checkCopies(before)
	}
	if err != nil {
		return err
	}
	end := w.clock.Add(1)
	w.settle(before, after, w.clock.Add(1))
	in := input{step: harness.Step{Name: how}, end: true, cut: !strict, found: state}
	w.history.ops = append(w.history.ops, porcupine.Operation{ClientId: clients, Input: in, Output: "", Call: before, Return: end})
	w.epoch++
	return nil
}

// checkCopies opens the checkpoints that were made before the time given: they are durable.
func (w *world) checkCopies(before int64) error {
	for i, c := range w.copies {
		if c.made > before {
			continue
		}
		opts := harness.DrawSeeded(w.faults, w.seed, uint64(i))
		opts.Exist = shale.MustExist
		db, err := shale.Open(c.dir, &opts)
		if err != nil {
			return fmt.Errorf("checkpoint %s, opened again: %w", c.dir, err)
		}
		has, err := harness.Read(db)
		if err == nil {
			err = c.has.Diff(has)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return fmt.Errorf("checkpoint %s, opened again: %w", c.dir, err)
		}
	}
	w.copies = nil
	return nil
}

// run makes a history of some epochs, all but the last of which end with a cut.
func (w *world) run(epochs, n int) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<63))
	w.disk(w.mem)
	err := w.open(r)
	for _, e := range ballast.Entries() {
		if err == nil {
			err = w.db.Put([]byte(e.Key), []byte(e.Value))
		}
	}
	if err == nil {
		err = w.db.Sync()
	}
	if epochs == 1 && r.IntN(3) == 0 && err == nil {
		err = w.closeEpoch(r, n)
	}
	for ; err == nil && w.bad == nil && epochs > 1; epochs-- {
		if r.IntN(5) == 0 {
			err = w.closeEpoch(r, n)
		} else {
			err = w.cutEpoch(r, n)
		}
	}
	if err != nil {
		return err
	}
	if w.bad == nil {
		w.runEpoch(n)
		_ = w.newClient(0).do(harness.ScanStep(-1, shale.Range{}))
		never := w.clock.Add(1)
		w.settle(never, never, never)
	}
	if err := w.closeStore(); err != nil {
		return err
	}
	return w.bad
}

// add adds the figures of a history.
func (f *figures) add(w *world) {
	o := &w.figures
	f.histories++
	f.operations += len(w.history.ops)
	f.overlapping += overlapping(w.history.ops)
	f.unknown += o.unknown
	f.failed += o.failed
	f.crashes += o.crashes
	f.closes += o.closes
	f.resumed += o.resumed
	f.reopens += o.reopens
	f.flushes += o.flushes
	f.compactions += o.compactions
	for kind, n := range o.kinds {
		f.kinds[kind] += n
	}
}

// overlapping returns how many operations began when another had not ended.
func overlapping(ops []porcupine.Operation) (n int) {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	last := int64(0)
	for _, op := range ops {
		if op.Call < last {
			n++
		}
		last = max(last, op.Return)
	}
	return n
}

func testLinear(t *testing.T, histories uint64, epochs, n int) figures {
	testenv.CheckLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	if testing.Short() || testenv.Race {
		histories = (histories + 3) / 4
	}
	begin := time.Now()
	f := figures{kinds: make(map[string]int)}
	for i := uint64(0); i < histories || time.Since(begin) < long; i++ {
		w := newWorld(seed + i)
		testenv.Within(t, time.Minute, "a history", func() {
			if err := w.run(epochs, n); err != nil {
				t.Errorf("history %d: %v", i, err)
			}
		})
		checked := time.Now()
		if t.Failed() || !check(t, w.history) {
			t.Fatalf("seed %d, after %v, %s", seed+i, time.Since(begin).Round(time.Millisecond), strings.Join(w.drawn, "\nthen "))
		}
		f.longest = max(f.longest, time.Since(checked).Round(time.Microsecond))
		f.add(w)
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(f.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, f.kinds[kind]))
	}
	t.Logf("%d histories of %d operations, %d at the same time as others, in %v: all linearizable, seen within %v; %d crashes, "+
		"%d deaths, %d closed in use, %d resumed; %d writes without an answer, %d of which failed; %d flushes, %d compactions; %s", f.histories, f.operations, f.overlapping,
		time.Since(begin).Round(time.Millisecond), f.longest, f.crashes, f.reopens, f.closes, f.resumed, f.unknown, f.failed, f.flushes, f.compactions, strings.Join(kinds, ", "))
	if 10*f.overlapping < f.operations {
		t.Errorf("of %d operations only %d were at the same time as others", f.operations, f.overlapping)
	}
	if f.flushes == 0 || f.compactions == 0 {
		t.Errorf("%d flushes and %d compactions", f.flushes, f.compactions)
	}
	return f
}

// What clients see who use a store at the same time, while it is flushed and compacted, is
// linearizable: it could come from one client alone.
func TestLinear(t *testing.T) { testLinear(t, 16, 1, 30) }

// So is what they see before and after crashes. Of the writes that had no answer each is there or
// not, and a power cut may take the last ones that were not synced.
func TestLinear_Crash(t *testing.T) {
	f := testLinear(t, 16, 4, 9)
	// Brief runs may well miss one of these.
	if ends := f.crashes + f.reopens; ends >= 40 && (f.crashes == 0 || f.reopens == 0 || f.unknown == 0) || ends >= 400 && f.failed == 0 {
		t.Errorf("%+v: want some of each", f)
	}
}

package shale

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

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A linCut is the power cut, or the death of the process, that ends an epoch:
// at an operation of the disk, or when all clients are done.
type linCut struct {
	w      *linWorld
	config vfs.CrashConfig
	left   atomic.Int64 // operations until then
	once   sync.Once

	before, after int64 // the time around it
	mem           *vfs.Mem
	visible       uint64 // the last write that was seen before
}

// strict says that the process died, not the machine: then nothing is lost.
func (c *linCut) strict() bool {
	return c.config.Policy == vfs.KeepAll && c.config.Names == vfs.NamesKeep
}

func (c *linCut) arm() {
	c.w.mem.OnOp(func(vfs.Op, string) {
		if c.left.Add(-1) == 0 {
			c.now()
		}
	})
}

func (c *linCut) now() {
	c.once.Do(func() {
		c.before = c.w.clock.Add(1)
		if c.w.db != nil {
			c.visible = uint64(c.w.db.commits.Visible())
		}
		c.mem = c.w.mem.Crash(c.config)
		c.after = c.w.clock.Add(1)
		c.w.ended.Store(true)
	})
}

// newCut chooses a cut.
func (w *linWorld) newCut(r *rand.Rand, most int) *linCut {
	c := &linCut{w: w, config: vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep}}
	if r.IntN(4) > 0 {
		configs := crashConfigs(r.Uint64())
		c.config = configs[r.IntN(len(configs))]
	}
	c.left.Store(1 + r.Int64N(int64(most)))
	return c
}

// runEpoch has the clients use the store, until they are done or the cut comes.
func (w *linWorld) runEpoch(n int) {
	var clients, others sync.WaitGroup
	w.ended.Store(false)
	for id := range linClients {
		clients.Go(func() { w.client(id, n) })
	}
	others.Go(func() { w.disturb(linClients) })
	clients.Wait()
	w.ended.Store(true)
	others.Wait()
	w.closer.Wait()
}

// closeEpoch runs an epoch in which the store is closed while it is used, and
// opens it again. What was done is there; what returned ErrClosed was not done.
func (w *linWorld) closeEpoch(r *rand.Rand, n int) error {
	w.untilClose.Store(1 + r.Int64N(int64(linClients*n)))
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
func (w *linWorld) closeStore() error {
	m := w.db.Metrics()
	w.figures.flushes += m.Flushes
	w.figures.compactions += m.Compactions
	err := w.db.Close()
	if w.closing.Swap(false) {
		if !errors.Is(err, ErrClosed) {
			return fmt.Errorf("a second Close returns %w", err)
		}
		err = w.closed
	}
	w.db = nil
	if n := w.mem.OpenFiles(); n != 0 {
		return fmt.Errorf("%d files are left open", n)
	}
	if w.faulty.Load() {
		return nil
	}
	return err
}

// cutEpoch runs an epoch that ends with a cut, and opens what is left.
func (w *linWorld) cutEpoch(r *rand.Rand, n int) error {
	cut := w.newCut(r, 4<<r.IntN(8))
	if r.IntN(3) == 0 {
		w.faulty.Store(true)
		at := 1 + r.Int64N(int64(2<<r.IntN(8)))
		cause := []error{syscall.EIO, syscall.EIO, syscall.ENOSPC}[r.IntN(3)]
		var logs atomic.Int64
		w.inject(func(op vfs.Op, name string, _ int64) error {
			writes := op == vfs.OpWrite || op == vfs.OpMapWrite || op == vfs.OpSync
			if writes && strings.HasPrefix(name, "db") && strings.HasSuffix(name, ".wal") && logs.Add(1) == at {
				return cause
			}
			return nil
		})
		cut.left.Store(1 << 40) // the others see what the fault has left
	}
	cut.arm()
	w.runEpoch(n)
	cut.now()
	w.mem.OnOp(nil)
	if err := w.closeStore(); err != nil {
		return err
	}
	if w.faulty.Swap(false) && cut.strict() {
		cut.mem = w.mem // what a failed sync has left unsynced can still be read
	}
	strict, before, after, visible := cut.strict(), cut.before, cut.after, cut.visible
	for again := true; again; {
		w.disk(cut.mem)
		again = r.IntN(3) == 0 && !strict
		if again { // the power is cut again while the store is opened
			cut = w.newCut(r, 40)
			cut.arm()
		}
		if err := w.open(r); err != nil {
			return fmt.Errorf("Open after a crash with %v: %w", cut.config, err)
		}
		if again {
			cut.now()
			w.mem.OnOp(nil)
			if err := w.closeStore(); err != nil {
				return err
			}
		}
	}
	if uint64(w.db.commits.Visible()) < visible {
		w.figures.lossy++
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
func (w *linWorld) found(how string, strict bool, before, after int64) error {
	out, err := linScan(w.db, Range{}, nil)
	if err != nil {
		return err
	}
	if gets, err := linGets(w.db); err != nil || gets != out {
		return fmt.Errorf("after opening: Get says %v, %w; Scan says %v", gets, err, out)
	}
	in := linInput{kind: linCrash, how: how, keys: linAll}
	if strict {
		in.kind = linReopen
	}
	if err := w.checkCopies(before); err != nil {
		return err
	}
	end := w.clock.Add(1)
	w.settle(before, after, w.clock.Add(1), out)
	w.history = append(w.history, porcupine.Operation{ClientId: linClients, Input: in, Output: out, Call: before, Return: end})
	w.epoch++
	return nil
}

// checkCopies opens the checkpoints that were made before the time given: they
// are durable.
func (w *linWorld) checkCopies(before int64) error {
	for i, c := range w.copies {
		if c.made > before {
			continue
		}
		out, err := linCopyRead(w.faults, c.dir, rand.New(rand.NewPCG(w.seed, uint64(i))))
		if err == nil && out != c.out {
			err = fmt.Errorf("it had %v and has %v", c.out, out)
		}
		if err != nil {
			return fmt.Errorf("checkpoint %s, opened again: %w", c.dir, err)
		}
	}
	w.copies = nil
	return nil
}

// settle adds what was seen in the epoch to the history. What had returned
// before the cut has its answer. What was called before it was over may have
// happened; a write that failed shows after the next opening only, or never, if
// the store went on after the failure: but one that could be seen before it was
// durable may have been seen. What was called later is of no world.
func (w *linWorld) settle(before, after, end int64, found linOutput) {
	for _, s := range w.seen {
		w.figures.kinds[s.in.how]++
		if s.call > after {
			continue
		}
		if s.failed || s.ret > before {
			if len(s.in.writes) == 0 {
				continue
			}
			if s.failed {
				w.figures.failed++
			}
			if s.failed && !s.in.early {
				if w.resumed.Load() {
					continue
				}
				s.call = max(s.call, before)
			}
			s.ret, s.in.unknown = end, true
			w.figures.unknown++
			if change := s.in.writes[len(s.in.writes)-1]; change.value != 0 && found.values[change.key] == change.value {
				w.figures.surfaced++
			}
		}
		w.history = append(w.history, porcupine.Operation{ClientId: s.client, Input: s.in, Output: s.out, Call: s.call, Return: s.ret})
	}
	w.seen = nil
	if w.resumed.Swap(false) {
		w.figures.resumed++
	}
}

// open opens the store with other options.
func (w *linWorld) open(r *rand.Rand) (err error) {
	w.draw(r)
	w.db, err = Open("db", &w.opts)
	return err
}

// run makes a history of some epochs, all but the last of which end with a cut.
func (w *linWorld) run(epochs, n int) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<63))
	w.disk(w.mem)
	err := w.open(r)
	if err == nil {
		err = w.load(60)
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
		w.scan(0, Range{})
		never := w.clock.Add(1)
		w.settle(never, never, never, linOutput{})
	}
	if err := w.closeStore(); err != nil {
		return err
	}
	return w.bad
}

// add adds the figures of a history.
func (f *linFigures) add(w *linWorld) {
	o := &w.figures
	f.histories++
	f.operations += len(w.history)
	f.overlapping += overlapping(w.history)
	f.unknown += o.unknown
	f.failed += o.failed
	f.surfaced += o.surfaced
	f.crashes += o.crashes
	f.closes += o.closes
	f.resumed += o.resumed
	f.reopens += o.reopens
	f.lossy += o.lossy
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

func testLinear(t *testing.T, histories uint64, epochs, n int) linFigures {
	checkLeaks(t)
	seed, long := testenv.Seed(t), testenv.Long(t)
	if testing.Short() || testenv.Race {
		histories = (histories + 3) / 4
	}
	begin := time.Now()
	f := linFigures{kinds: make(map[string]int)}
	for i := uint64(0); i < histories || time.Since(begin) < long; i++ {
		w := newLinWorld(seed + i)
		within(t, time.Minute, "a history", func() {
			if err := w.run(epochs, n); err != nil {
				t.Errorf("history %d: %v", i, err)
			}
		})
		checked := time.Now()
		if t.Failed() || checkLinear(t, w.history) != porcupine.Ok {
			t.Fatalf("seed %d, after %v, %s", seed+i, time.Since(begin).Round(time.Millisecond), strings.Join(w.drawn, "\nthen "))
		}
		f.longest = max(f.longest, time.Since(checked).Round(time.Microsecond))
		f.add(w)
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(f.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, f.kinds[kind]))
	}
	t.Logf("%d histories of %d operations, %d at the same time as others, in %v: all linearizable, seen within %v; %d crashes, of which %d lost something, "+
		"%d deaths, %d closed in use, %d resumed; of %d writes without an answer, %d of which failed, %d were there; %d flushes, %d compactions; %s", f.histories, f.operations, f.overlapping,
		time.Since(begin).Round(time.Millisecond), f.longest, f.crashes, f.lossy, f.reopens, f.closes, f.resumed, f.unknown, f.failed, f.surfaced, f.flushes, f.compactions, strings.Join(kinds, ", "))
	if 10*f.overlapping < f.operations {
		t.Errorf("of %d operations only %d were at the same time as others", f.operations, f.overlapping)
	}
	if f.flushes == 0 || f.compactions == 0 {
		t.Errorf("%d flushes and %d compactions", f.flushes, f.compactions)
	}
	return f
}

// What clients see who use a store at the same time, while it is flushed and
// compacted, is linearizable: it could come from one client alone.
func TestLinear(t *testing.T) { testLinear(t, 16, 1, 30) }

// So is what they see before and after crashes. Of the writes that had no
// answer each is there or not, and a power cut may take the last ones that were
// not synced.
func TestLinear_Crash(t *testing.T) {
	f := testLinear(t, 16, 4, 9)
	// Brief runs may well miss one of these.
	if ends := f.crashes + f.reopens; ends >= 40 && (f.crashes == 0 || f.reopens == 0 || f.unknown == 0) || ends >= 400 && (f.lossy == 0 || f.failed == 0) {
		t.Errorf("%+v: want some of each", f)
	}
}

package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// clients is how many clients use the store at once.
const clients = 4

// A world is a store, its clients, and what they have seen.
type world struct {
	seed   uint64
	opts   shale.Options
	drawn  []string // the options of each opening, for messages
	mem    *vfs.Mem
	faults *faultfs.FS
	gate   harness.Gate // of the store, if its options have one
	db     *shale.DB
	epoch  int

	clock   atomic.Int64 // a time that never stands still
	faulty  atomic.Bool  // errors are to be expected
	ended   atomic.Bool  // the epoch is over
	refused atomic.Int64 // how often the gate has refused a group and the store went on
	resumed atomic.Bool  // the store went on after a failure in this epoch

	// A store that is closed while its clients use it: after so many operations, if that is above zero.
	untilClose atomic.Int64
	closing    atomic.Bool // Close was called
	closer     sync.WaitGroup
	closed     error // what Close returned

	mu     sync.Mutex
	seen   []operation // in this epoch
	copies []copied    // checkpoints that were made in it
	bad    error       // the first error that is not to be expected

	history history
	figures figures
}

// An operation is one of the present epoch.
type operation struct {
	client    int
	in        input
	out       string
	call, ret int64
	failed    bool
}

// A copied is a checkpoint: when it was made, and what it had when it was opened for the first time.
type copied struct {
	dir  string
	made int64
	has  harness.State
}

// figures are what a run of the tests has come by.
type figures struct {
	histories, operations, overlapping int
	longest                            time.Duration // that a check took
	resumed                            int           // epochs in which the store went on after a failure
	unknown, failed                    int           // writes without an answer, and those of them that failed
	crashes, reopens, closes           int           // closes: by Close next to its clients
	flushes, compactions               uint64
	kinds                              map[string]int
}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, mem: vfs.NewMem(), history: history{start: ballast}}
	w.figures.kinds = make(map[string]int)
	return w
}

// disk makes mem, with faults and pauses, the disk of the store to be opened.
func (w *world) disk(mem *vfs.Mem) {
	w.mem, w.faults = mem, faultfs.New(mem, nil)
	w.inject(nil)
}

// inject has the disk fail as fn says, and lets others go on at many of its operations, also in the
// middle of a commit or a lookup.
func (w *world) inject(fn faultfs.InjectFunc) {
	w.faults.Inject(func(op vfs.Op, name string, n int64) error {
		if rand.IntN(3) == 0 {
			runtime.Gosched()
		}
		if fn == nil {
			return nil
		}
		return fn(op, name, n)
	})
}

// open opens the store with other options.
func (w *world) open(r *rand.Rand) (err error) {
	w.opts = harness.Draw(r, w.faults)
	w.opts.Compression = shale.NoCompression // so that long values fill memtables and tables
	if r.IntN(2) == 0 {
		w.opts.Tuning.FilterPrefix = shale.FixedPrefix(1) // that of the keys
	}
	if w.opts.Shipping.Gate != nil {
		w.opts.Shipping.Gate = w.gate.Over(w.opts.Shipping.Gate)
	}
	harness.Standing(&w.opts, harness.Epoch) // so that it is known when what is put now to expire is over
	w.drawn = append(w.drawn, harness.OptionsText(&w.opts))
	w.db, err = shale.Open(harness.Dir, &w.opts)
	return err
}

// A client does operations, one at a time, and notes them.
type client struct {
	*world
	id     int
	r      *rand.Rand
	source *harness.Source
}

func (w *world) newClient(id int) *client {
	c := &client{world: w, id: id, r: rand.New(rand.NewPCG(w.seed, uint64(w.epoch*(clients+1)+id+1)))}
	c.source = harness.NewSource(keys)
	c.source.Rand, c.source.Exact = c.r, true
	c.source.Serial = int64(w.epoch*(clients+2)+id+1) << 16
	return c
}

// do does a step and notes it.
func (c *client) do(s harness.Step) error {
	real := harness.NewReal(c.db)
	o := operation{client: c.id, in: input{step: s, durability: c.opts.Durability, epoch: c.epoch}}
	real.Open = func(dir string, _ bool) (*shale.DB, error) {
		opts := harness.Draw(c.r, c.faults)
		opts.Exist, opts.ReadOnly = shale.MustExist, c.r.IntN(2) == 0
		return shale.Open(dir, &opts)
	}
	side := harness.Side{
		Store:     real,
		Seen:      func() { o.ret = cmpOr(o.ret, c.clock.Add(1)) },
		Meanwhile: c.meanwhile,
		NewDir: func() string {
			dir := fmt.Sprintf("copy%d", o.call)
			return dir
		},
	}
	real.Copied = func(dir string, has harness.State) {
		c.mu.Lock()
		c.copies = append(c.copies, copied{dir, o.ret, has})
		c.mu.Unlock()
	}
	o.call = c.clock.Add(1)
	o.out = s.Do(&side)
	o.ret = cmpOr(o.ret, c.clock.Add(1))
	c.note(o, real.Err)
	return real.Err
}

// cmpOr returns a, or b if a is zero.
func cmpOr(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

// note notes an operation and how it ended.
func (w *world) note(o operation, err error) {
	if errors.Is(err, shale.ErrClosed) && w.closing.Load() {
		return // then it has done nothing
	}
	if o.out == "" && o.in.step.Fits != nil {
		return // it says nothing
	}
	if errors.Is(err, shale.ErrIngested) {
		o.out, err = harness.ErrText(nil), nil // it is there, durable and visible
	}
	if err != nil && o.in.refused(o.out) || errors.Is(err, shale.ErrClosed) && o.in.step.Name == closedName {
		err = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		o.failed = true
		if expected := w.faulty.Load() && harness.IsInjected(err) && !slices.Contains(reads, o.in.step.Name); !expected && w.bad == nil {
			w.bad = fmt.Errorf("%s: %w", o.in.step, err)
		}
	}
	w.seen = append(w.seen, o)
}

// refused reports whether the answer is an error that every store gives.
func (in input) refused(answer string) bool {
	if in.step.Fits != nil {
		return false
	}
	want, _, writes, promised := in.do(harness.State{})
	return want == answer && !writes && !promised
}

// reads are the steps that write nothing to the disk, so that no fault of it is their excuse.
var reads = []string{"Get", "AppendValue", "ViewValue", "Has", "ExpiresAt", "Explain", "getMany", "mayContain", "exportFilters", "scan", "snapshot", "iterator", closedName}

// writes are the operations that clients write with, and upkeep those that change no answer.
var (
	writes = append(named("put", "delete", "deleteRange", "batch", "putIfAbsent", "putTTL", "putIfAbsentTTL", "update", "ingest", "refused"),
		harness.Operation{Name: "deleteRange", Weight: 3, Draw: drawWideRange})
	upkeep = named("flush", "sync", "compact", "verify", "rebuildFilters")
)

func named(names ...string) (some []harness.Operation) {
	for _, o := range harness.Operations {
		if slices.Contains(names, o.Name) {
			some = append(some, o)
		}
	}
	return some
}

// drawWideRange returns a deletion of several of the keys at once, all of which are behind the ballast.
func drawWideRange(s *harness.Source) harness.Step {
	from := 2 + s.IntN(2)
	lower, upper := []byte(keys[from]), []byte(nil)
	if to := from + 2 + s.IntN(3); to < len(keys) {
		upper = []byte(keys[to])
	}
	return harness.Step{Name: "deleteRange", Args: harness.Show(lower) + " " + harness.Show(upper), Do: func(s *harness.Side) string {
		return harness.ErrText(s.DeleteRange(lower, upper))
	}}
}

// drawWrite returns a write that deletes nothing of the ballast: others write that again without a note.
func (c *client) drawWrite() harness.Step {
	for {
		in := input{step: c.source.Draw(writes)}
		if _, after, _, _ := in.do(ballast); harness.Without(ballast, after).Len() == 0 {
			return in.step
		}
	}
}

// work does n operations, or as many as the epoch lets it.
func (c *client) work(n int) {
	write := true
	for range n {
		if c.ended.Load() {
			return
		}
		if c.r.IntN(2) == 0 {
			runtime.Gosched()
		}
		write = write || c.resumed.Load()
		switch {
		case write && c.r.IntN(2) == 0:
			write = c.do(c.drawWrite()) == nil // one unknown outcome is enough
		case c.r.IntN(16) == 0:
			_ = c.do(c.closedSnapshot())
		default:
			_ = c.do(c.source.Draw(harness.Moments))
		}
		if c.untilClose.Add(-1) == 0 {
			c.closer.Go(c.closeInUse)
		}
	}
}

// meanwhile lets others go on.
func (c *client) meanwhile() {
	for range c.r.IntN(8) {
		runtime.Gosched()
	}
	if c.r.IntN(4) == 0 {
		_ = c.do(c.source.Draw(harness.Moments[:1]))
	}
}

// closeInUse closes the store while its clients use it, and ends the epoch.
func (w *world) closeInUse() {
	w.count()
	w.closing.Store(true)
	w.closed = w.db.Close()
	w.ended.Store(true)
}

func (w *world) count() {
	m := w.db.Metrics()
	w.figures.flushes += m.Flushes
	w.figures.compactions += m.Compactions
}

// load writes n entries of the ballast again.
func (w *world) load(n int) (err error) {
	entries := ballast.Entries()
	for ; n > 0 && err == nil; n-- {
		e := entries[rand.IntN(len(entries))]
		err = w.db.Put([]byte(e.Key), []byte(e.Value))
	}
	return err
}

// disturb does now and then what does not change what the store holds. What it makes durable counts.
func (c *client) disturb() {
	for range 12 {
		for range c.r.IntN(40) {
			runtime.Gosched()
		}
		if err := c.load(c.r.IntN(3)); err != nil {
			c.note(operation{in: input{step: harness.Step{Name: "load", Do: func(s *harness.Side) string { return harness.ErrText(s.Sync()) }}}}, err)
		}
		if c.ended.Load() {
			return
		}
		c.disturbOnce()
	}
}

// disturbOnce does one of these things.
func (c *client) disturbOnce() {
	if c.r.IntN(10) == 0 {
		c.resume()
		return
	}
	_ = c.do(c.source.Draw(upkeep))
}

// resume has a store go on whose log has failed. Then what it holds is durable, and writes that
// failed are undone; one that works need not do anything.
func (c *client) resume() {
	failed := c.db.Err() != nil
	o := operation{client: c.id, call: c.clock.Add(1), in: input{durability: c.opts.Durability, epoch: c.epoch,
		step: harness.Step{Name: "resume", Do: func(s *harness.Side) string { return harness.ErrText(s.Sync()) }}}}
	err := c.db.Resume()
	o.out, o.ret = harness.ErrText(err), c.clock.Add(1)
	if err != nil || failed {
		c.note(o, err)
	}
	if err == nil && failed {
		c.resumed.Store(true)
	}
}

const closedName = "closed snapshot"

// closedSnapshot returns a step that opens a snapshot which another goroutine closes while it is
// read. What was answered before is one reading, at the moment of its opening.
func (c *client) closedSnapshot() harness.Step {
	seed := c.r.Uint64()
	known := make(map[string]string) // as lookUp says it
	return harness.Step{Name: closedName, Do: func(s *harness.Side) string {
		snapshot, err := s.Snapshot()
		if err != nil {
			return ""
		}
		s.Seen()
		s.Meanwhile()
		r := rand.New(rand.NewPCG(seed, 1))
		var closer sync.WaitGroup
		closer.Go(func() {
			for range r.IntN(16) {
				runtime.Gosched()
			}
			_ = snapshot.Close()
			// Now nothing keeps what only the snapshot sees.
			_ = c.db.Flush(context.Background())
			_ = c.db.Compact(context.Background(), shale.Range{})
		})
		defer closer.Wait()
		for n := range 400 {
			if n%4 == 0 {
				runtime.Gosched()
			}
			key := keys[n*7%len(keys)]
			value, err := snapshot.Get([]byte(key))
			if errors.Is(err, shale.ErrClosed) {
				break
			}
			answer := fmt.Sprint(string(value), harness.ErrText(err))
			if was, is := known[key]; is && was != answer {
				return fmt.Sprintf("a snapshot has %q = %.60q and then %.60q", key, was, answer)
			}
			known[key] = answer
		}
		return "read"
	}, Fits: func(now harness.State, answer string) error {
		if answer != "read" {
			return errors.New(answer)
		}
		for key, was := range known {
			value, err := harness.NewModelAt(now, 0).Get([]byte(key))
			if is := fmt.Sprint(string(value), harness.ErrText(err)); was != is {
				return fmt.Errorf("key %q was %.60q, is %.60q", key, was, is)
			}
		}
		return nil
	}}
}

// settle adds what was seen in the epoch to the history. What had returned before the cut has its
// answer. What was called before it was over may have happened; a write that failed shows after the
// next opening only, or never, if the store went on after the failure: but one that could be seen
// before it was durable may have been seen. What was called later is of no world.
func (w *world) settle(before, after, end int64) {
	for _, o := range w.seen {
		w.figures.kinds[o.in.step.Name]++
		if o.call > after {
			continue
		}
		if o.failed || o.ret > before {
			if o.in.step.Fits != nil {
				continue
			}
			_, _, writes, _ := o.in.do(harness.State{})
			if !writes {
				continue
			}
			if o.failed {
				w.figures.failed++
			}
			if o.failed && !o.in.early() {
				if w.resumed.Load() {
					continue
				}
				o.call = max(o.call, before)
			}
			o.ret, o.in.unknown = end, true
			w.figures.unknown++
		}
		w.history.ops = append(w.history.ops, porcupine.Operation{ClientId: o.client, Input: o.in, Output: o.out, Call: o.call, Return: o.ret})
	}
	w.seen = nil
	if w.resumed.Swap(false) {
		w.figures.resumed++
	}
}

// early reports whether readers may see what the operation writes before it is durable, although it
// is durable when the call returns.
func (in input) early() bool {
	m := harness.NewModelAt(harness.State{}, in.durability)
	in.step.Do(&harness.Side{Store: m})
	commits, _ := m.Commits()
	return slices.ContainsFunc(commits, func(c harness.Commit) bool { return c.Early })
}

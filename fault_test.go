package shale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A faultLife is a store on a disk with faults, used by a script that takes
// errors as they come and notes what each means for its writes.
type faultLife struct {
	h      history
	mem    *vfs.Mem
	faults *vfs.FaultFS
	opts   Options
	db     *DB
	claim
	failed map[int]bool // writes that failed since the store was opened
	copies int

	fired   atomic.Int64 // faults so far
	closing atomic.Bool
	excused atomic.Bool // a fault met background work that Close was ending
	mu      sync.Mutex
	told    []error // what calls and events said
}

func newFaultLife(h history) *faultLife {
	f := &faultLife{h: h, mem: vfs.NewMem()}
	f.lost = make(map[int]fate)
	f.faults = vfs.NewFault(f.mem, nil)
	f.opts = tinyStore(f.faults)
	f.opts.OnEvent = func(e Event) { f.note(e.Err) }
	return f
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

// inject makes operations fail.
func (f *faultLife) inject(fn vfs.InjectFunc) {
	f.faults.Inject(func(op vfs.Op, name string, n int64) error {
		err := fn(op, name, n)
		if err != nil {
			f.fired.Add(1)
			if f.closing.Load() && strings.HasSuffix(name, ".sst") {
				f.excused.Store(true)
			}
		}
		return err
	})
}

// run is the script: it comes by all that a store does to its disk. It returns
// what is wrong with the answers; errors that the faults explain are not.
func (f *faultLife) run() error {
	for part := range 3 {
		if !f.open() && !f.open() && !f.open() {
			return nil
		}
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
		f.write(5, 0)
		f.checkpoint()
		f.resume()
		f.write(10, 5)
		if err := f.checkAnswers(); err != nil {
			return fmt.Errorf("part %d: %w", part, err)
		}
		if part == 2 {
			return nil // the caller ends it
		}
		if err := f.close(); err != nil {
			return err
		}
	}
	return nil
}

// open opens the store, if it can.
func (f *faultLife) open() bool {
	f.failed = make(map[int]bool)
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
		d := SyncManual
		if k > 0 && j%k == k-1 {
			d = SyncEach
		}
		i := f.begun
		f.begun++
		if f.note(f.db.Write(context.Background(), f.h.batch(i, d))) != nil {
			f.lost[i], f.failed[i] = unknown, true
		} else if d == SyncEach {
			f.safe = f.begun
		}
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
		for i := range f.failed {
			f.lost[i] = gone
		}
		f.safe = f.begun
	}
}

// checkAnswers compares what the open store says: all that was acknowledged and
// nothing that failed, or an error.
func (f *faultLife) checkAnswers() error {
	c := claim{safe: f.begun, begun: f.begun, lost: maps.Clone(f.lost)}
	for i := range f.failed {
		c.lost[i] = gone
	}
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
	if !f.open() {
		return fmt.Errorf("with the faults gone: %w", f.told[len(f.told)-1])
	}
	defer f.close()
	if err := f.checkFound(c); err != nil {
		return err
	}
	f.write(5, 5)
	if len(f.failed) > 0 {
		return fmt.Errorf("with the faults gone: %w", f.told[len(f.told)-1])
	}
	if ending == endReopenCut {
		found = found.Crash(crash)
		f.opts.FS = found
	}
	if err := f.close(); err != nil {
		return err
	}
	if !f.open() {
		return fmt.Errorf("the second time: %w", f.told[len(f.told)-1])
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

// A faultCase is one fault.
type faultCase struct {
	op     vfs.Op
	mode   string
	k      int64
	inject vfs.InjectFunc
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s, operation %d of kind %q", c.mode, c.k, c.op)
}

// faultOps are the operations that a script is failed at.
var faultOps = []vfs.Op{
	vfs.OpCreate, vfs.OpOpen, vfs.OpOpenReadWrite, vfs.OpRename, vfs.OpRemove, vfs.OpLink, vfs.OpMkdirAll,
	vfs.OpList, vfs.OpStat, vfs.OpLock, vfs.OpSyncDir, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpTruncate,
	vfs.OpPreallocate, vfs.OpMap, vfs.OpMapWrite, vfs.OpUnmap, vfs.OpClose,
}

// faultCases returns the faults to try: of each kind of operation at most most,
// evenly spread from the first to the last.
func faultCases(counts map[vfs.Op]int64, most int64) []faultCase {
	var cases []faultCase
	for _, op := range faultOps {
		step := max(1, (counts[op]+most-1)/most)
		for k := int64(1); k <= counts[op]; k += step {
			cases = append(cases,
				faultCase{op, "once", k, vfs.FailAt(k, syscall.EIO, op)},
				faultCase{op, "for good", k, vfs.FailFrom(k, syscall.EIO, op)},
				faultCase{op, "after it happened", k, vfs.FailAt(k, &vfs.Fault{Err: syscall.EIO, After: true}, op)})
			if op == vfs.OpWrite || op == vfs.OpMapWrite {
				cases = append(cases, faultCase{op, "short", k, vfs.FailAt(k, &vfs.Fault{Err: syscall.ENOSPC, Short: true}, op)})
			}
		}
	}
	room := counts[vfs.OpCreate] + counts[vfs.OpLink] + counts[vfs.OpMkdirAll] + counts[vfs.OpWrite] + counts[vfs.OpPreallocate]
	for k := int64(1); k <= room; k += max(1, room/(2*most)) {
		cases = append(cases, faultCase{vfs.OpWrite, "disk full", k, vfs.FullFrom(k, syscall.ENOSPC)})
	}
	for i := range 4 * min(most, 250) {
		cases = append(cases, nowAndThen(i))
	}
	return cases
}

// nowAndThen fails one operation of some, of all kinds, by chance.
func nowAndThen(i int64) faultCase {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(uint64(i), 1))
	rare := 10 << r.IntN(7)
	return faultCase{vfs.OpClose, fmt.Sprintf("one in %d", rare), i, func(vfs.Op, string, int64) error {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(rare) > 0 {
			return nil
		}
		return &vfs.Fault{Err: syscall.EIO, Short: r.IntN(2) == 0, After: r.IntN(3) == 0}
	}}
}

// quiet says whether a store need not tell of the fault, because it can do
// without what failed, or does it again.
func (c faultCase) quiet() bool {
	switch c.op {
	case vfs.OpRemove, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpMap, vfs.OpUnmap, vfs.OpClose,
		vfs.OpLink, vfs.OpSyncDir: // those after removals; others are told
		return true
	case vfs.OpRename, vfs.OpOpenReadWrite:
		return true // those of a log to be used again; others are told
	case vfs.OpOpen, vfs.OpStat, vfs.OpRead:
		return c.mode == "after it happened" // a file is not there, or all bytes are
	}
	return false
}

// One operation fails: once, for good, after it happened, or for lack of room
// half way through. No acknowledged write is lost, no answer is wrong, nothing
// hangs or leaks, and the error is told.
func TestFault_AtEveryOperation(t *testing.T) {
	checkLeaks(t)
	seed := seedOf(t)
	h := newHistory("a", seed, 400)
	counts := make(map[vfs.Op]int64)
	dry := newFaultLife(h)
	if err := errors.Join(dry.run(), dry.end(endReopen, vfs.CrashConfig{})); err != nil || len(dry.told) > 0 {
		t.Fatalf("without faults: %v, %v", err, dry.told)
	}
	for _, op := range faultOps {
		counts[op] = dry.faults.Count(op)
	}
	most := int64(9)
	switch {
	case longRun(t) > 0:
		most = 1 << 40
	case testing.Short() && raceEnabled:
		most = 2
	case testing.Short():
		most = 4
	}
	begin, fired, bad := time.Now(), 0, 0
	cases := faultCases(counts, most)
	configs := vfs.CrashConfigs(seed)
	for i, c := range cases {
		f := newFaultLife(h)
		// Each mode meets each ending: there are as many of the one as of the other.
		ending := (i + i/numEndings) % numEndings
		f.opts.testing.noMap = i/7%2 == 1
		what := fmt.Sprintf("%v, without mapping %v, ending %d", c, f.opts.testing.noMap, ending)
		within(t, 60*time.Second, what, func() {
			f.inject(c.inject)
			err := f.run()
			if n := f.fired.Load(); n > 0 && err == nil {
				fired++
				if len(f.told) == 0 && !c.quiet() && !f.excused.Load() {
					err = errors.New("nobody was told")
				}
			}
			if err == nil {
				err = f.end(ending, configs[i%len(configs)])
			}
			if err != nil {
				bad++
				t.Errorf("%s: %v\ntold: %v", what, err, f.told)
			}
		})
		if bad > 5 {
			break
		}
	}
	t.Logf("%d faults, %d met, in %v", len(cases), fired, time.Since(begin).Round(time.Millisecond))
}

package shale

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A fakeTree is all that a scheduler sees of a store.
type fakeTree struct {
	meta     *manifest.Version
	closed   bool
	flushing bool
	running  int64
	changes  int
}

// newFakeTree has level 0 runs of one table each, all over the same keys.
func newFakeTree(runs int) *fakeTree {
	f := &fakeTree{meta: new(manifest.Version)}
	for i := range runs {
		num := base.FileNum(runs - i + 10)
		f.meta.Levels[0].Runs = append(f.meta.Levels[0].Runs, manifest.Run{ID: uint64(num), Tables: []*manifest.Table{{
			Num: num, Size: 1 << 20, Entries: 1000, Keys: 1000, Smallest: []byte("a"), Largest: []byte("z"),
			MinSeq: base.Seq(num), MaxSeq: base.Seq(num),
		}}})
	}
	return f
}

func (f *fakeTree) scheduler(workers int) *scheduler {
	return newScheduler(schedulerEnv{
		workers: workers,
		closing: func() bool { return f.closed },
		version: func() *manifest.Version { return f.meta },
		options: func() compaction.Options {
			return compaction.Options{MemtableSize: 1 << 20, TableSize: 1 << 20, DropSeq: base.MaxSeq}
		},
		flushing: func() bool { return f.flushing },
		started:  func(n int64) { f.running += n },
		changed:  func() { f.changes++ },
	})
}

// A plan's tables are nobody else's until it is done.
func TestScheduler_ReservesInputs(t *testing.T) {
	f := newFakeTree(8)
	s := f.scheduler(2)
	plan := s.pick()
	if plan == nil || plan.From != 0 || f.running != 1 {
		t.Fatalf("pick = %v, %d running; want a compaction of level 0", plan, f.running)
	}
	if again := s.pick(); again != nil {
		t.Errorf("pick beside it = %v, want nothing: it has all tables", again)
	}
	before := f.changes
	s.done(plan)
	if f.running != 0 || f.changes == before {
		t.Errorf("afterwards %d run, %d changes were announced", f.running, f.changes-before)
	}
	if s.pick() == nil {
		t.Error("after it is done its inputs are not free")
	}
}

// No more compactions run than there are workers, none while the store is closing, and
// none of a store that is closed.
func TestScheduler_Workers(t *testing.T) {
	f := newFakeTree(8)
	if plan := f.scheduler(-1).pick(); plan != nil {
		t.Errorf("without workers: %v", plan)
	}
	s := f.scheduler(1)
	s.running = 1
	if plan := s.pick(); plan != nil {
		t.Errorf("with all workers busy: %v", plan)
	}
	s.running, f.closed = 0, true
	if plan := s.pick(); plan != nil {
		t.Errorf("while closing: %v", plan)
	}
	f.closed, f.meta = false, nil
	if plan := s.pick(); plan != nil {
		t.Errorf("when closed: %v", plan)
	}
}

// A step of Compact and a compaction of level 0 take turns.
func TestScheduler_TurnsWithCompact(t *testing.T) {
	f := newFakeTree(8)
	s := f.scheduler(1)
	job := compaction.NewManual(nil, nil)
	s.request(job)
	if plan := s.pick(); plan != nil {
		t.Errorf("while Compact waits for its step: %v", plan)
	}
	step, blocked := s.pickStep(job)
	if step == nil || !step.ByRequest() || s.running != 0 {
		t.Fatalf("the step is %v, %v, with %d workers", step, blocked, s.running)
	}
	if other, blocked := s.pickStep(compaction.NewManual(nil, nil)); other != nil || !blocked {
		t.Errorf("a second call has %v, %v beside it; want to wait", other, blocked)
	}
	s.withdraw(job)
	s.done(step)
	if turn, _ := s.pickStep(job); turn == nil || turn.ByRequest() {
		t.Errorf("the step after that is %v, want level 0's turn", turn)
	}
}

// Writers that wait get the error of what fails, until it works again.
func TestScheduler_Stuck(t *testing.T) {
	f := newFakeTree(40)
	s := f.scheduler(1)
	flush, compact := errors.New("flush"), errors.New("compact")
	if err := s.stuck(stallLevel0); err != nil {
		t.Errorf("stuck with %v", err)
	}
	s.flushed(flush)
	if err := s.stuck(stallMemtables); err != flush {
		t.Errorf("after a failed flush: %v", err)
	}
	s.flushed(nil)
	if s.flushed(ErrClosed); s.flushFailure() != nil {
		t.Error("a flush that Close has ended counts as failed")
	}
	for i := range 3 {
		if n := s.compacted(s.attempt(), compact); n != i+1 {
			t.Errorf("%d failures in a row, want %d", n, i+1)
		}
	}
	if err := s.stuck(stallLevel0); err != compact {
		t.Errorf("after failed compactions: %v", err)
	}
	if err := s.stuck(stallMemtables); err != nil {
		t.Errorf("a memtable waits for no compaction: %v", err)
	}
	s.compacted(s.attempt(), nil)
	if err := s.stuck(stallLevel0); err != nil || s.compacted(s.attempt(), compact) != 1 {
		t.Errorf("after one that worked: %v", err)
	}
}

// After retryNow only a compaction that began later says whether compactions fail.
func TestScheduler_RetryNow(t *testing.T) {
	s := newFakeTree(40).scheduler(1)
	before, now := errors.New("before"), errors.New("now")
	old, older := s.attempt(), s.attempt()
	s.compacted(old, before)
	ended := s.retryNow()
	select {
	case <-old.retry:
	default:
		t.Error("a compaction that has failed is not tried again at once")
	}
	if s.compacted(older, before); ended() || s.compactionFailure() != before {
		t.Errorf("one that began earlier counts; failure %v", s.compactionFailure())
	}
	if s.compacted(s.attempt(), now); !ended() || s.compactionFailure() != now {
		t.Errorf("one that began afterwards: ended %v, failure %v", ended(), s.compactionFailure())
	}
	if s.compacted(older, before); s.compactionFailure() != now {
		t.Errorf("failure %v is an old one", s.compactionFailure())
	}
	again := s.retryNow()
	if s.compacted(s.attempt(), nil); !again() || s.compactionFailure() != nil {
		t.Errorf("one that worked: ended %v, failure %v", again(), s.compactionFailure())
	}
	if s.compacted(old, before); s.compactionFailure() != nil {
		t.Errorf("failure %v is an old one, and compactions work", s.compactionFailure())
	}
}

// A damaged table is left alone until it is taken back.
func TestScheduler_SetAside(t *testing.T) {
	f := newFakeTree(40)
	s := f.scheduler(1)
	plan := s.pick()
	if _, ok := s.setAside(plan, errors.New("another")); ok {
		t.Error("an error that is no damage sets a table aside")
	}
	if _, ok := s.setAside(plan, base.Corruption(base.TableName(9999), 0, "block", errors.New("bad"))); ok {
		t.Error("damage in a table that the plan does not read")
	}
	damaged := plan.Inputs[len(plan.Inputs)-1].Tables[0].Num // the oldest
	damage := base.Corruption(base.TableName(damaged), 0, "block", errors.New("bad"))
	if num, ok := s.setAside(plan, fmt.Errorf("merge: %w", damage)); !ok || num != damaged {
		t.Fatalf("setAside = %v, %v", num, ok)
	}
	s.done(plan)
	for range 100 {
		next := s.pick()
		if next == nil {
			break
		}
		if next.Reads(damaged) {
			t.Fatalf("%v reads the damaged table", next)
		}
		s.mu.Lock() // it stays under way, so that the next pick has fewer tables
		s.running--
		s.mu.Unlock()
	}
	if !s.takeBack(damaged) || s.takeBack(damaged) {
		t.Error("takeBack does not say whether the table was set aside")
	}
}

// idle says whether no compaction is under way or due.
func (s *scheduler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, _ := s.nextLocked()
	return s.running == 0 && plan.Kind == compaction.Nothing
}

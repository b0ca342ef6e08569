package scheduler

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A fakeTree stands for the store in tests of a Scheduler.
type fakeTree struct {
	meta     *manifest.Version
	closed   bool
	flushing bool
	asked    uint64
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

func (f *fakeTree) scheduler(workers int) *Scheduler {
	return New(Env{
		Workers: func() int { return workers },
		Closing: func() bool { return f.closed },
		Version: func() *manifest.Version { return f.meta },
		Options: func() compaction.Options {
			return compaction.Options{MemtableSize: 1 << 20, TableSize: 1 << 20, DropSeq: base.MaxSeq}
		},
		Flushing:    func() bool { return f.flushing },
		Level0Asked: func() uint64 { return f.asked },
		Started:     func(n int64) { f.running += n },
		Changed:     func() { f.changes++ },
	})
}

// There are never more compactions than workers. While the
// store is closing, and when it is closed, none begins.
func TestScheduler_Workers(t *testing.T) {
	f := newFakeTree(8)
	if plan := f.scheduler(-1).Pick(); plan != nil {
		t.Errorf("without workers: %v", plan)
	}
	s := f.scheduler(1)
	s.running = 1
	if plan := s.Pick(); plan != nil {
		t.Errorf("with all workers busy: %v", plan)
	}
	s.running, f.closed = 0, true
	if plan := s.Pick(); plan != nil {
		t.Errorf("while closing: %v", plan)
	}
	f.closed, f.meta = false, nil
	if plan := s.Pick(); plan != nil {
		t.Errorf("when closed: %v", plan)
	}
}

// A plan is cut into as many parts as workers are free, and takes these workers. Each is given back
// by itself, and wakes those that look for one.
func TestScheduler_Split(t *testing.T) {
	f := newFakeTree(0)
	f.meta.Levels[5].Runs = []manifest.Run{{ID: 2, Tables: []*manifest.Table{{Num: 40, Size: 4 << 20, Entries: 1000, Keys: 1000,
		Smallest: []byte("a"), Largest: []byte("z"), MinSeq: 2, MaxSeq: 2}}}}
	last := manifest.Run{ID: 1}
	for i := range 8 {
		first := string(rune('a' + 3*i))
		last.Tables = append(last.Tables, &manifest.Table{Num: base.FileNum(50 + i), Size: 4 << 20, Entries: 1000, Keys: 1000,
			Smallest: []byte(first), Largest: []byte(first + "z"), MaxSeq: 1})
	}
	f.meta.Levels[6].Runs = []manifest.Run{last}
	s := f.scheduler(4)
	plan, _ := s.PickStep(compaction.NewManual(nil, nil, base.MaxSeq))
	if plan == nil || plan.To != 6 {
		t.Fatalf("the step is %v", plan)
	}
	cuts := s.Split(plan)
	if len(cuts) != 3 || s.Busy() != 3 {
		t.Fatalf("cut at %q, %d workers are busy; want 4 parts, of which one runs in Compact's goroutine", cuts, s.Busy())
	}
	if more := s.Split(plan); len(more) != 0 {
		t.Errorf("without free workers cut at %q", more)
	}
	for left := 2; left >= 0; left-- {
		before := f.changes
		for len(s.Woken()) > 0 {
			<-s.Woken()
		}
		s.PartDone()
		if s.Busy() != left || f.changes == before || len(s.Woken()) == 0 {
			t.Errorf("%d workers are busy, want %d; %d were woken", s.Busy(), left, f.changes-before)
		}
	}
	s.Done(plan)
	if !s.Unused() {
		t.Error("something stays reserved")
	}
}

// A step of Compact and a compaction of level 0 take turns.
func TestScheduler_TurnsWithCompact(t *testing.T) {
	f := newFakeTree(8)
	s := f.scheduler(1)
	job := compaction.NewManual(nil, nil, base.MaxSeq)
	s.Request(job)
	if plan := s.Pick(); plan != nil {
		t.Errorf("while Compact waits for its step: %v", plan)
	}
	step, blocked := s.PickStep(job)
	if step == nil || !step.ByRequest() || s.running != 0 {
		t.Fatalf("the step is %v, %v, with %d workers", step, blocked, s.running)
	}
	if other, blocked := s.PickStep(compaction.NewManual(nil, nil, base.MaxSeq)); other != nil || !blocked {
		t.Errorf("a second call has %v, %v beside it; want to wait", other, blocked)
	}
	s.Withdraw(job)
	s.Done(step)
	if turn, _ := s.PickStep(job); turn == nil || turn.ByRequest() {
		t.Errorf("the step after that is %v, want level 0's turn", turn)
	}
}

// Lookups that ask level 0 in vain earn the price of a compaction of it. What they have earned
// is forgotten when the compaction begins, and when level 0 changes.
func TestScheduler_LookupsPay(t *testing.T) {
	f := newFakeTree(3)
	f.asked = 1 << 40 // before the store was opened
	s := f.scheduler(1)
	s.ForgetReads()
	if plan := s.Pick(); plan != nil || s.ReadsPay() {
		t.Fatalf("without lookups: %v, %v", plan, s.ReadsPay())
	}
	price := s.Reads.Price.Load()
	f.asked += uint64(price/compaction.LookupCost) - 1
	if s.ReadsPay() {
		t.Errorf("%d lookups pay %d", f.asked-1<<40, price)
	}
	s.Reads.Seeks.Add(compaction.LookupCost)
	if !s.ReadsPay() {
		t.Error("lookups and seeks together do not pay")
	}
	s.ForgetReads()
	if s.ReadsPay() {
		t.Error("what was forgotten pays")
	}
	f.asked += uint64(price / compaction.LookupCost)
	plan := s.Pick()
	if plan == nil || plan.From != 0 || plan.Reason != "often read" {
		t.Fatalf("lookups have paid for %v", plan)
	}
	s.Done(plan)
	if again := s.Pick(); again != nil {
		t.Errorf("they pay again, for %v", again)
	}
}

// While compactions fail, writers that wait get the error.
func TestScheduler_Stuck(t *testing.T) {
	f := newFakeTree(40)
	s := f.scheduler(1)
	compact := errors.New("compact")
	if err := s.Stuck(); err != nil {
		t.Errorf("stuck with %v", err)
	}
	for i := range 3 {
		if n := s.Compacted(s.Begin(), compact); n != i+1 {
			t.Errorf("%d failures in a row, want %d", n, i+1)
		}
	}
	if err := s.Stuck(); err != compact {
		t.Errorf("after failed compactions: %v", err)
	}
	s.Compacted(s.Begin(), nil)
	if err := s.Stuck(); err != nil || s.Compacted(s.Begin(), compact) != 1 {
		t.Errorf("after one that worked: %v", err)
	}
}

// After RetryNow, only compactions that began later
// decide whether compactions count as failing.
func TestScheduler_RetryNow(t *testing.T) {
	s := newFakeTree(40).scheduler(1)
	before, now := errors.New("before"), errors.New("now")
	old, older := s.Begin(), s.Begin()
	s.Compacted(old, before)
	ended := s.RetryNow()
	select {
	case <-old.Retry:
	default:
		t.Error("a compaction that has failed is not tried again at once")
	}
	if s.Compacted(older, before); ended() || s.CompactionFailure() != before {
		t.Errorf("one that began earlier counts; failure %v", s.CompactionFailure())
	}
	if s.Compacted(s.Begin(), now); !ended() || s.CompactionFailure() != now {
		t.Errorf("one that began afterwards: ended %v, failure %v", ended(), s.CompactionFailure())
	}
	if s.Compacted(older, before); s.CompactionFailure() != now {
		t.Errorf("failure %v is an old one", s.CompactionFailure())
	}
	again := s.RetryNow()
	if s.Compacted(s.Begin(), nil); !again() || s.CompactionFailure() != nil {
		t.Errorf("one that worked: ended %v, failure %v", again(), s.CompactionFailure())
	}
	if s.Compacted(old, before); s.CompactionFailure() != nil {
		t.Errorf("failure %v is an old one, and compactions work", s.CompactionFailure())
	}
}

// A damaged table is left alone until it is taken back.
func TestScheduler_SetAside(t *testing.T) {
	f := newFakeTree(40)
	s := f.scheduler(1)
	plan := s.Pick()
	if _, ok := s.SetAside(plan, errors.New("another")); ok {
		t.Error("an error that is no damage sets a table aside")
	}
	if _, ok := s.SetAside(plan, base.Corruption(base.TableName(9999), 0, "block", errors.New("bad"))); ok {
		t.Error("damage in a table that the plan does not read")
	}
	damaged := plan.Inputs[len(plan.Inputs)-1].Tables[0].Num // the oldest
	damage := base.Corruption(base.TableName(damaged), 0, "block", errors.New("bad"))
	if num, ok := s.SetAside(plan, fmt.Errorf("merge: %w", damage)); !ok || num != damaged {
		t.Fatalf("setAside = %v, %v", num, ok)
	}
	s.Done(plan)
	for range 100 {
		next := s.Pick()
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
	if !s.TakeBack(damaged) || s.TakeBack(damaged) {
		t.Error("takeBack does not say whether the table was set aside")
	}
}

// If reads earn as much as a memtable's bytes between two flushes, level 0 is due at four runs from
// the next flush on. A compaction of level 0 in between takes nothing away from what they earned.
func TestScheduler_ManyReads(t *testing.T) {
	f := newFakeTree(3)
	s := f.scheduler(1)
	// change makes another level 0, of the newest run and, after a flush, a younger one.
	change := func(flushed int) {
		old := f.meta
		f.meta = newFakeTree(1 + flushed).meta
		runs := f.meta.Levels[0].Runs
		runs[flushed].ID = old.Levels[0].Runs[0].ID
		runs[0].ID = runs[flushed].ID + uint64(flushed)
		s.Level0Changed(old, f.meta)
	}
	const need = 1 << 20 / compaction.LookupCost // the fake tree's memtables have 1 MiB
	for _, c := range []struct {
		name          string
		before, after uint64 // lookups before a compaction and after it
		compaction    bool
		want          bool
	}{
		{"no lookups", 0, 0, false, false},
		{"too few", need - 1, 0, false, false},
		{"enough", need, 0, false, true},
		{"enough, on both sides of a compaction", need / 2, need / 2, true, true},
		{"too few, on both sides", need/2 - 1, need / 2, true, false},
		{"none any more", 0, 0, true, false},
	} {
		f.asked += c.before
		if c.compaction {
			change(0)
		}
		f.asked += c.after
		change(1)
		if got := s.Reads.Many.Load(); got != c.want {
			t.Errorf("%s: many reads %v, want %v", c.name, got, c.want)
		}
	}
}

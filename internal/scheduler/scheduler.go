// Package scheduler decides when a store compacts, and what: it knows which compactions are
// under way and which have failed. Package compaction has the rules.
package scheduler

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A Scheduler decides what is compacted next, and by how many workers. It knows
// which tables and key ranges compactions use, and why the last background job of
// each sort failed. It starts nothing itself. All methods may be called concurrently.
//
// A plan's tables are in every version from its reservation to Done, because no
// other plan may take them. So a pick must see the version that the last plan has
// installed: it asks for the version after it has taken the lock under which that
// plan's tables were given back.
type Scheduler struct {
	env   Env
	wake  chan struct{} // see Nudge
	Seeks SeekCredit
	_     [64]byte // seeks are counted by readers: mu is in another cache line

	mu         sync.Mutex
	inFlight   compaction.InFlight
	running    int                  // automatic compactions, and the sub-ranges of all
	requests   []*compaction.Manual // calls of Compact that wait for their next step
	level0Next bool                 // a compaction of level 0 comes before the next of these steps
	failures   int                  // automatic compactions that failed in a row
	now        Attempt              // that of compactions which begin now
	ended      int                  // the highest round of an automatic compaction that has ended
	flushErr   error                // why the last flush failed; nil if it did not
	compactErr error                // the same of automatic compactions
	asideErr   error                // why the last table was set aside
}

// An Env is what a Scheduler needs from the store. Its functions take no lock
// under which the Scheduler is called.
type Env struct {
	Workers  func() int // that compact at a time; below 1: only Compact does
	Closing  func() bool
	Version  func() *manifest.Version // the current one; nil: the store is closed
	Options  func() compaction.Options
	Flushing func() bool   // whether a memtable waits to be flushed
	Started  func(n int64) // n compactions more are under way
	Changed  func()        // what goroutines wait for may have come true
}

// An Attempt is one of an automatic compaction.
type Attempt struct {
	round int           // how many calls of RetryNow came before it
	Retry chan struct{} // closed by the next one: if the attempt fails, it is not to wait
}

// New returns a Scheduler that nobody has asked for anything.
func New(env Env) *Scheduler {
	s := &Scheduler{env: env, wake: make(chan struct{}, 1), now: Attempt{Retry: make(chan struct{})}}
	s.Seeks.Price.Store(math.MaxInt64)
	return s
}

// Nudge says that there may be something to compact.
func (s *Scheduler) Nudge() { base.Wake(s.wake) }

// Woken returns what tells of calls of Nudge, several at once maybe.
func (s *Scheduler) Woken() <-chan struct{} { return s.wake }

// Pick reserves the next automatic compaction if a worker is free. It returns nil if
// there is none.
func (s *Scheduler) Pick() *compaction.Plan { return s.PickFor(s.env.Workers()) }

// PickFor is pick with another number of workers.
func (s *Scheduler) PickFor(workers int) *compaction.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.env.Closing() || s.running >= workers {
		s.Seeks.Price.Store(math.MaxInt64)
		return nil
	}
	plan, forSeeks := s.nextLocked()
	if plan.Kind == compaction.Nothing || (plan.From == 0 || s.compactErr != nil) && s.requestsFirstLocked() {
		return nil
	}
	if forSeeks {
		s.Seeks.spend()
	}
	s.reserveLocked(&plan)
	return &plan
}

// nextLocked returns the next automatic compaction without a reservation, and sets
// the price of one for seeks. Requires: mu is held.
func (s *Scheduler) nextLocked() (plan compaction.Plan, forSeeks bool) {
	s.Seeks.Price.Store(math.MaxInt64)
	meta := s.env.Version()
	if meta == nil {
		return compaction.Plan{}, false
	}
	opts := s.env.Options()
	plan = compaction.Pick(meta, opts, s.inFlight)
	if plan.Kind != compaction.Nothing || s.env.Workers() < 1 || s.env.Flushing() {
		return plan, false
	}
	plan, price := compaction.PickOftenRead(meta, opts, s.inFlight, s.Seeks.Earned.Load())
	s.Seeks.Price.Store(price)
	return plan, plan.Kind != compaction.Nothing
}

// reserveLocked keeps other compactions away from the plan's tables and range until
// done. A step of Compact has its caller's goroutine and takes no worker. Requires:
// mu is held.
func (s *Scheduler) reserveLocked(plan *compaction.Plan) {
	s.inFlight.Add(plan)
	s.env.Started(1)
	if plan.ByRequest() {
		s.level0Next = true
		return
	}
	s.running++
	if plan.From == 0 {
		s.level0Next = false
	}
}

// Steps of Compact and compactions of level 0 take turns, because both may need the
// same tables: so level 0 waits for one step at most, and Compact comes to an end
// while writers keep level 0 due.

// level0TurnLocked returns the compaction of level 0 that comes before the next step
// of Compact, if there is one. The caller of Compact carries it out itself: all
// workers may be busy below. Requires: mu is held.
func (s *Scheduler) level0TurnLocked(meta *manifest.Version) (plan compaction.Plan, ok bool) {
	if !s.level0Next || s.env.Workers() < 1 {
		return compaction.Plan{}, false
	}
	plan = compaction.PickLevel0(meta, s.env.Options(), s.inFlight)
	return plan, plan.Kind != compaction.Nothing
}

// requestsFirstLocked says whether a compaction of level 0 has to let a step of
// Compact go first. After a failure every automatic compaction has to: while it waits to
// be tried again its inputs are reserved, and Compact would wait for it each time
// instead of returning the error. Requires: mu is held.
func (s *Scheduler) requestsFirstLocked() bool {
	if s.level0Next && s.compactErr == nil {
		return false
	}
	meta := s.env.Version()
	if meta == nil {
		return false
	}
	for _, job := range s.requests {
		if job.Ready(meta, s.env.Options(), s.inFlight.WithAside()) {
			return true
		}
	}
	return false
}

// Request announces a call of Compact, so that compactions of level 0 let its steps
// go first. The caller calls withdraw afterwards.
func (s *Scheduler) Request(job *compaction.Manual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, job)
}

// Withdraw takes back a request.
func (s *Scheduler) Withdraw(job *compaction.Manual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(j *compaction.Manual) bool { return j == job })
}

// PickStep reserves the next step of a call of Compact, or a compaction of level 0
// that comes before it. Without a plan, blocked says whether others are in its way; if
// not, there is nothing left to do.
func (s *Scheduler) PickStep(job *compaction.Manual) (p *compaction.Plan, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := s.env.Version()
	if meta == nil {
		return nil, false
	}
	plan, ok := s.level0TurnLocked(meta)
	if !ok {
		plan, blocked = job.Next(meta, s.env.Options(), s.inFlight.WithAside())
	}
	if plan.Kind == compaction.Nothing {
		return nil, blocked
	}
	s.reserveLocked(&plan)
	return &plan, true
}

// PlaceIngest chooses the level for tables with keys from smallest to largest. Unless
// that is level 0 it keeps compactions from writing there, until FreeInputs.
func (s *Scheduler) PlaceIngest(smallest, largest []byte) *compaction.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := compaction.PlaceIngest(s.env.Version(), s.env.Options(), s.inFlight, smallest, largest)
	if plan.To > 0 {
		s.inFlight.Add(&plan)
	}
	return &plan
}

// Split cuts the plan's key range where it can be merged in parallel, by as many
// workers as are free, and takes these. A step of Compact leaves one to level 0. The
// caller gives len(cuts) workers back with merged.
func (s *Scheduler) Split(plan *compaction.Plan) (cuts [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.env.Workers() - s.running
	if plan.ByRequest() {
		free--
	}
	if free > 0 {
		cuts = compaction.SplitRanges(plan, free+1)
	}
	s.running += len(cuts)
	return cuts
}

// Idle says whether no compaction is under way or due.
func (s *Scheduler) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, _ := s.nextLocked()
	return s.running == 0 && plan.Kind == compaction.Nothing
}

// Unused says whether no worker is busy, no table is reserved and nobody waits for a step.
func (s *Scheduler) Unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running == 0 && s.inFlight.Empty() && len(s.requests) == 0
}

// Busy returns how many workers are busy.
func (s *Scheduler) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Merged gives the workers back that split has taken.
func (s *Scheduler) Merged(workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running -= workers
}

// Done undoes the reservation of a plan, all at once: a pick between the worker's
// return and the inputs' would choose around inputs that nobody uses.
func (s *Scheduler) Done(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeWorkerLocked(plan)
	s.inFlight.Remove(plan)
}

// given says that a worker or inputs were given back: others may go on with them,
// whatever became of the plan.
func (s *Scheduler) given() {
	s.Nudge()
	s.env.Changed()
}

// FreeWorker gives the plan's worker back, and keeps its inputs.
func (s *Scheduler) FreeWorker(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeWorkerLocked(plan)
}

func (s *Scheduler) freeWorkerLocked(plan *compaction.Plan) {
	if !plan.ByRequest() {
		s.running--
	}
	s.env.Started(-1)
}

// FreeInputs gives the plan's tables and range back.
func (s *Scheduler) FreeInputs(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.Remove(plan)
}

// SetAside keeps automatic compactions away from an input of the plan in which err
// met damage, and returns its number. A merge would meet the damage again each time;
// reads of the table get the error, and so does Compact. If err is something else, ok
// is false.
func (s *Scheduler) SetAside(plan *compaction.Plan, err error) (num base.FileNum, ok bool) {
	var damage *base.CorruptionError
	if !errors.As(err, &damage) {
		return 0, false
	}
	kind, num, ok := base.ParseFileName(damage.File)
	if !ok || kind != base.FileTable || !plan.Reads(num) {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.SetAside(num)
	s.asideErr = err
	return num, true
}

// TakeBack lets automatic compactions have a table again, because it has turned out
// to be whole, or is gone. It reports whether the table had been set aside.
func (s *Scheduler) TakeBack(num base.FileNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	aside := s.inFlight.IsAside(num)
	s.inFlight.TakeBack(num)
	return aside
}

// Flushed notes the outcome of a flush. One that Close has ended has not failed: the log
// has it all.
func (s *Scheduler) Flushed(err error) {
	if errors.Is(err, base.ErrClosed) {
		return
	}
	defer s.env.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushErr = err
}

// FlushFailure returns why the last flush failed, or nil.
func (s *Scheduler) FlushFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushErr
}

// Begin is for an automatic compaction that is about to begin.
func (s *Scheduler) Begin() Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Compacted notes the outcome of an automatic compaction, and returns how many
// have failed in a row. A failure is of no account if a compaction has ended that began
// in a later round: this one is tried again at once.
func (s *Scheduler) Compacted(a Attempt, err error) (failures int) {
	defer s.env.Changed() // writers wait for level 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.failures, s.compactErr = 0, nil
	} else {
		s.failures++
		if a.round >= s.ended {
			s.compactErr = err
		}
	}
	s.ended = max(s.ended, a.round)
	return s.failures
}

// CompactionFailure returns why the last automatic compaction failed, or nil.
func (s *Scheduler) CompactionFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compactErr
}

// RetryNow begins another round: the compactions that have failed, or are about to,
// are tried again at once. It returns a function that says whether one has ended that
// began after the call.
func (s *Scheduler) RetryNow() (ended func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.now.Retry)
	s.now = Attempt{round: s.now.round + 1, Retry: make(chan struct{})}
	round := s.now.round
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ended >= round
	}
}

// Stuck returns why the room that writers wait for does not come about, or nil: flushes
// or compactions fail, or every compaction that could make level 0 shallower would read a
// damaged table. onLevel0 says that they wait for level 0, else for memtables.
func (s *Scheduler) Stuck(onLevel0 bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.flushErr != nil:
		return s.flushErr // memtables are full and can't be flushed
	case !onLevel0:
		return nil
	case s.compactErr != nil:
		return s.compactErr
	}
	return s.damageInTheWayLocked()
}

// damageInTheWayLocked returns the damage because of which level 0 can't be compacted
// any more, or nil. Requires: mu is held.
func (s *Scheduler) damageInTheWayLocked() error {
	if !s.inFlight.AnyAside() || !s.inFlight.Empty() {
		return nil
	}
	meta := s.env.Version()
	if meta == nil || compaction.Pick(meta, s.env.Options(), s.inFlight).Kind != compaction.Nothing {
		return nil
	}
	return s.asideErr
}

// A seek looks into every run of level 0, since no filter tells it where the next
// key is. Flushes alone leave some runs there for ever, so what seeks waste on
// them is credited to the compaction that would spare them that. Only seeks
// count, not the steps after them.

// A SeekCredit counts the bytes that seeks would have saved in a better shaped tree.
type SeekCredit struct {
	// Earned is bytes, since level 0 changed or a compaction was started for them.
	Earned atomic.Int64
	// Price is the credit at which a compaction pays for itself, or MaxInt64 if
	// there is nothing to compact. Each pick sets it.
	Price atomic.Int64
}

// spend says that a compaction for the seeks begins.
func (s *SeekCredit) spend() {
	s.Price.Store(math.MaxInt64)
	s.Earned.Store(0)
}

// SameLevel0 tells whether two versions have the same runs in level 0: these come
// as the newest and go as the oldest.
func SameLevel0(a, b *manifest.Version) bool {
	x, y := a.Levels[0].Runs, b.Levels[0].Runs
	return a == b || len(x) == len(y) && (len(x) == 0 || x[0].ID == y[0].ID)
}

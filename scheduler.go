package shale

import (
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A scheduler decides what is compacted next, and by how many workers. It knows
// which tables and key ranges compactions use, and why the last background job of
// each sort failed. It starts nothing itself: compactLoop, the flusher and the callers
// of Compact do.
//
// A plan's tables are in every version from its reservation to donePlan, because no
// other plan may take them. So a pick must see the version that the last plan has
// installed: it asks for the version after it has taken the lock under which that
// plan's tables were given back.
type scheduler struct {
	schedulerEnv
	wake  chan struct{} // to compactLoop: there may be something to compact
	seeks seekCredit
	_     [64]byte // seeks are counted by readers: mu is in another cache line

	mu         sync.Mutex
	inFlight   compaction.InFlight
	running    int                  // automatic compactions, and the sub-ranges of all
	requests   []*compaction.Manual // calls of Compact that wait for their next step
	level0Next bool                 // a compaction of level 0 comes before the next of these steps
	failures   int                  // automatic compactions that failed in a row
	now        attempt              // that of compactions which begin now
	ended      int                  // the highest round of an automatic compaction that has ended
	flushErr   error                // why the last flush failed; nil if it did not
	compactErr error                // the same of automatic compactions
	asideErr   error                // why the last table was set aside
}

// A schedulerEnv is what a scheduler needs from the store. Its functions take no lock
// under which the scheduler is called.
type schedulerEnv struct {
	workers  int // that compact at a time; below 1: only Compact does
	closing  func() bool
	version  func() *manifest.Version // the current one; nil: the store is closed
	options  func() compaction.Options
	flushing func() bool   // whether a memtable waits to be flushed
	started  func(n int64) // n compactions more are under way
	changed  func()        // what goroutines wait for may have come true
}

// An attempt is one of an automatic compaction.
type attempt struct {
	round int           // how many calls of retryNow came before it
	retry chan struct{} // closed by the next one: if the attempt fails, it is not to wait
}

func newScheduler(env schedulerEnv) *scheduler {
	s := &scheduler{schedulerEnv: env, wake: make(chan struct{}, 1), now: attempt{retry: make(chan struct{})}}
	s.seeks.price.Store(math.MaxInt64)
	return s
}

// pick reserves the next automatic compaction if a worker is free. It returns nil if
// there is none.
func (s *scheduler) pick() *compaction.Plan { return s.pickFor(s.workers) }

// pickFor is pick with another number of workers.
func (s *scheduler) pickFor(workers int) *compaction.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing() || s.running >= workers {
		s.seeks.price.Store(math.MaxInt64)
		return nil
	}
	plan, forSeeks := s.nextLocked()
	if plan.Kind == compaction.Nothing || (plan.From == 0 || s.compactErr != nil) && s.requestsFirstLocked() {
		return nil
	}
	if forSeeks {
		s.seeks.spend()
	}
	s.reserveLocked(&plan)
	return &plan
}

// nextLocked returns the next automatic compaction without a reservation, and sets
// the price of one for seeks. Requires: mu is held.
func (s *scheduler) nextLocked() (plan compaction.Plan, forSeeks bool) {
	s.seeks.price.Store(math.MaxInt64)
	meta := s.version()
	if meta == nil {
		return compaction.Plan{}, false
	}
	opts := s.options()
	plan = compaction.Pick(meta, opts, s.inFlight)
	if plan.Kind != compaction.Nothing || s.workers < 1 || s.flushing() {
		return plan, false
	}
	plan, price := compaction.PickOftenRead(meta, opts, s.inFlight, s.seeks.earned.Load())
	s.seeks.price.Store(price)
	return plan, plan.Kind != compaction.Nothing
}

// reserveLocked keeps other compactions away from the plan's tables and range until
// done. A step of Compact has its caller's goroutine and takes no worker. Requires:
// mu is held.
func (s *scheduler) reserveLocked(plan *compaction.Plan) {
	s.inFlight.Add(plan)
	s.started(1)
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
func (s *scheduler) level0TurnLocked(meta *manifest.Version) (plan compaction.Plan, ok bool) {
	if !s.level0Next || s.workers < 1 {
		return compaction.Plan{}, false
	}
	plan = compaction.PickLevel0(meta, s.options(), s.inFlight)
	return plan, plan.Kind != compaction.Nothing
}

// requestsFirstLocked says whether a compaction of level 0 has to let a step of
// Compact go first. After a failure every automatic compaction has to: while it waits to
// be tried again its inputs are reserved, and Compact would wait for it each time
// instead of returning the error. Requires: mu is held.
func (s *scheduler) requestsFirstLocked() bool {
	if s.level0Next && s.compactErr == nil {
		return false
	}
	meta := s.version()
	if meta == nil {
		return false
	}
	for _, job := range s.requests {
		if job.Ready(meta, s.options(), s.inFlight.WithAside()) {
			return true
		}
	}
	return false
}

// request announces a call of Compact, so that compactions of level 0 let its steps
// go first. The caller calls withdraw afterwards.
func (s *scheduler) request(job *compaction.Manual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, job)
}

func (s *scheduler) withdraw(job *compaction.Manual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(j *compaction.Manual) bool { return j == job })
}

// pickStep reserves the next step of a call of Compact, or a compaction of level 0
// that comes before it. Without a plan, blocked says whether others are in its way; if
// not, there is nothing left to do.
func (s *scheduler) pickStep(job *compaction.Manual) (p *compaction.Plan, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := s.version()
	if meta == nil {
		return nil, false
	}
	plan, ok := s.level0TurnLocked(meta)
	if !ok {
		plan, blocked = job.Next(meta, s.options(), s.inFlight.WithAside())
	}
	if plan.Kind == compaction.Nothing {
		return nil, blocked
	}
	s.reserveLocked(&plan)
	return &plan, true
}

// placeIngest chooses the level for tables with keys from smallest to largest. Unless
// that is level 0 it keeps compactions from writing there, until freeInputs.
func (s *scheduler) placeIngest(smallest, largest []byte) *compaction.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := compaction.PlaceIngest(s.version(), s.options(), s.inFlight, smallest, largest)
	if plan.To > 0 {
		s.inFlight.Add(&plan)
	}
	return &plan
}

// split cuts the plan's key range where it can be merged in parallel, by as many
// workers as are free, and takes these. A step of Compact leaves one to level 0. The
// caller gives len(cuts) workers back with merged.
func (s *scheduler) split(plan *compaction.Plan) (cuts [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.workers - s.running
	if plan.ByRequest() {
		free--
	}
	if free > 0 {
		cuts = compaction.SplitRanges(plan, free+1)
	}
	s.running += len(cuts)
	return cuts
}

// merged gives the workers back that split has taken.
func (s *scheduler) merged(workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running -= workers
}

// done undoes the reservation of a plan, all at once: a pick between the worker's
// return and the inputs' would choose around inputs that nobody uses.
func (s *scheduler) done(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeWorkerLocked(plan)
	s.inFlight.Remove(plan)
}

// given says that a worker or inputs were given back: others may go on with them,
// whatever became of the plan.
func (s *scheduler) given() {
	base.Wake(s.wake)
	s.changed()
}

// freeWorker gives the plan's worker back, and keeps its inputs.
func (s *scheduler) freeWorker(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeWorkerLocked(plan)
}

func (s *scheduler) freeWorkerLocked(plan *compaction.Plan) {
	if !plan.ByRequest() {
		s.running--
	}
	s.started(-1)
}

// freeInputs gives the plan's tables and range back.
func (s *scheduler) freeInputs(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.Remove(plan)
}

// setAside keeps automatic compactions away from an input of the plan in which err
// met damage, and returns its number. A merge would meet the damage again each time;
// reads of the table get the error, and so does Compact. If err is something else, ok
// is false.
func (s *scheduler) setAside(plan *compaction.Plan, err error) (num base.FileNum, ok bool) {
	var damage *CorruptionError
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

// takeBack lets automatic compactions have a table again, because it has turned out
// to be whole, or is gone. It reports whether the table had been set aside.
func (s *scheduler) takeBack(num base.FileNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	aside := s.inFlight.IsAside(num)
	s.inFlight.TakeBack(num)
	return aside
}

// flushed notes the outcome of a flush. One that Close has ended has not failed: the log
// has it all.
func (s *scheduler) flushed(err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	defer s.changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushErr = err
}

// flushFailure returns why the last flush failed, or nil.
func (s *scheduler) flushFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushErr
}

// attempt is for an automatic compaction that is about to begin.
func (s *scheduler) attempt() attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// compacted notes the outcome of an automatic compaction, and returns how many
// have failed in a row. A failure is of no account if a compaction has ended that began
// in a later round: this one is tried again at once.
func (s *scheduler) compacted(a attempt, err error) (failures int) {
	defer s.changed() // writers wait for level 0
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

// compactionFailure returns why the last automatic compaction failed, or nil.
func (s *scheduler) compactionFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compactErr
}

// retryNow begins another round: the compactions that have failed, or are about to,
// are tried again at once. It returns a function that says whether one has ended that
// began after the call.
func (s *scheduler) retryNow() (ended func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.now.retry)
	s.now = attempt{round: s.now.round + 1, retry: make(chan struct{})}
	round := s.now.round
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ended >= round
	}
}

// stuck returns why the room that writers wait for, for the reason given, does not
// come about, or nil: flushes or compactions fail, or every compaction that could
// make level 0 shallower would read a damaged table.
func (s *scheduler) stuck(reason stall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case reason == stallNone:
		return nil
	case s.flushErr != nil:
		return s.flushErr // memtables are full and can't be flushed
	case reason != stallLevel0:
		return nil
	case s.compactErr != nil:
		return s.compactErr
	}
	return s.damageInTheWayLocked()
}

// damageInTheWayLocked returns the damage because of which level 0 can't be compacted
// any more, or nil. Requires: mu is held.
func (s *scheduler) damageInTheWayLocked() error {
	if !s.inFlight.AnyAside() || !s.inFlight.Empty() {
		return nil
	}
	meta := s.version()
	if meta == nil || compaction.Pick(meta, s.options(), s.inFlight).Kind != compaction.Nothing {
		return nil
	}
	return s.asideErr
}

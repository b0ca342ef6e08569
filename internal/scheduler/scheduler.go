// Package scheduler decides when a store compacts, and what. It knows which compactions are
// in progress and which have failed. Package compaction has the rules for choosing one.
package scheduler

import (
	"errors"
	"math"
	"slices"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/manifest"
)

// A Scheduler decides which compaction comes next, and how many run at
// the same time. It knows which tables and key ranges compactions use,
// and why the last flush and the last automatic compaction failed. It
// starts no goroutine. All methods may be called concurrently.
//
// A plan's tables are in every version from its reservation to Done, because no other
// plan may take them. So a pick must see the version that the previous plan has
// installed. For this reason it asks for the version after it has taken mu: the previous
// plan's tables were given back under the same lock, after the version was installed.
type Scheduler struct {
	env   Env
	wake  chan struct{} // see Nudge
	Reads ReadCredit
	_     [64]byte // readers count seeks: this keeps mu in another cache line

	mu         lockorder.Mutex[lockorder.Scheduler] // protects the following fields
	inFlight   compaction.InFlight
	running    int                  // busy workers: automatic compactions, and sub-ranges of all compactions
	requests   []*compaction.Manual // calls of Compact that wait for their next step
	level0Next bool                 // a compaction of level 0 comes before the next step of a call of Compact
	failures   int                  // automatic compactions that have failed in a row
	now        Attempt              // for compactions that begin now
	ended      int                  // the highest round of any automatic compaction that has ended
	compactErr error                // why the last automatic compaction failed; nil if it succeeded
	asideErr   error                // why the last table was set aside
	hidden     hiddenParts
}

// An Env is what a Scheduler needs from the store. Some of its functions are called
// under mu. They must not take a lock under which a method of the Scheduler is called.
type Env struct {
	Workers     func() int               // limit of running; below 1 there are no automatic compactions
	Closing     func() bool              // reports whether no automatic compaction may begin any more
	Version     func() *manifest.Version // the current one; nil: the store is closed
	Options     func() compaction.Options
	Hidden      func(s *spans.Set, t *manifest.Table, seen base.Seq) (share float64, parts int) // as compaction.Options has it, by s
	Flushing    func() bool                                                                     // reports whether a memtable waits to be flushed
	Level0Asked func() uint64                                                                   // how many runs of level 0 point lookups have asked in vain since Open
	Started     func(n int64)                                                                   // counts compactions in progress: n more
	Changed     func()                                                                          // wakes goroutines that wait for a flush or compaction
}

// An Attempt belongs to one automatic compaction. It says in
// which round the compaction began. RetryNow begins a round.
type Attempt struct {
	round int           // number of calls of RetryNow before it
	Retry chan struct{} // closed by the next call of RetryNow: a failed attempt then waits no longer
}

// New returns a Scheduler without plans in flight.
func New(env Env) *Scheduler {
	s := &Scheduler{env: env, wake: make(chan struct{}, 1), now: Attempt{Retry: make(chan struct{})}}
	s.Reads.Price.Store(math.MaxInt64)
	return s
}

// Nudge wakes the goroutine that listens to Woken, because there may be something to compact.
func (s *Scheduler) Nudge() { base.Wake(s.wake) }

// Woken returns the channel that Nudge sends to. One value may stand for several calls.
func (s *Scheduler) Woken() <-chan struct{} { return s.wake }

// Pick reserves the next automatic compaction if a worker is free,
// and returns it. It returns nil if there is nothing to compact now.
func (s *Scheduler) Pick() *compaction.Plan { return s.PickFor(s.env.Workers()) }

// PickFor is Pick with another limit of workers.
func (s *Scheduler) PickFor(workers int) *compaction.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.env.Closing() || s.running >= workers {
		s.Reads.Price.Store(math.MaxInt64)
		return nil
	}
	plan, forReads := s.nextLocked()
	if plan.Kind == compaction.Nothing || (plan.From == 0 || s.compactErr != nil) && s.requestsFirstLocked() {
		return nil
	}
	if forReads {
		s.Reads.Price.Store(math.MaxInt64)
		s.ForgetReads()
	}
	s.reserveLocked(&plan)
	return &plan
}

// nextLocked returns the next automatic compaction without a reservation. forReads reports
// whether it is one that reads have paid for. At the end it sets Reads.Price: seeks earn credit
// meanwhile as before. Requires: mu is held.
func (s *Scheduler) nextLocked() (plan compaction.Plan, forReads bool) {
	price := int64(math.MaxInt64)
	defer func() { s.Reads.Price.Store(price) }()
	meta := s.env.Version()
	if meta == nil {
		return compaction.Plan{}, false
	}
	opts := s.planOptionsLocked(meta)
	plan = compaction.Pick(meta, opts, s.inFlight)
	if plan.Kind != compaction.Nothing || s.env.Workers() < 1 || s.env.Flushing() {
		return plan, false
	}
	plan, price = compaction.PickOftenRead(meta, opts, s.inFlight, s.earned(), s.Reads.Near.Load())
	return plan, plan.Kind != compaction.Nothing
}

// reserveLocked keeps other compactions away from the plan's tables
// and key range until Done or FreeInputs. A step of Compact runs on
// its caller's goroutine and takes no worker. Requires: mu is held.
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

// Steps of Compact and compactions of level 0 take turns, because both
// may need the same tables. So level 0 waits for one step at most, and
// Compact finishes even if writers keep level 0 due all the time.

// level0TurnLocked returns the compaction of level 0 that comes before the next
// step of Compact, if there is one. The caller of Compact carries it out itself,
// because all workers may be busy with deeper levels. Requires: mu is held.
func (s *Scheduler) level0TurnLocked(meta *manifest.Version) (plan compaction.Plan, ok bool) {
	if !s.level0Next || s.env.Workers() < 1 {
		return compaction.Plan{}, false
	}
	plan = compaction.PickLevel0(meta, s.env.Options(), s.inFlight)
	return plan, plan.Kind != compaction.Nothing
}

// requestsFirstLocked reports whether a step of Compact must come before an
// automatic compaction that Pick has found: one of level 0, or any
// compaction after a failure. A compaction that has failed keeps its inputs
// reserved until it is tried again. Compact would wait for these inputs
// again and again, instead of returning the error. Requires: mu is held.
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

// Request announces that a call of Compact waits for its next step, so that compactions of
// level 0 let the step go first. The caller calls Withdraw when it has the step, or gives up.
func (s *Scheduler) Request(job *compaction.Manual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, job)
}

// Withdraw undoes Request.
func (s *Scheduler) Withdraw(job *compaction.Manual) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = slices.DeleteFunc(s.requests, func(j *compaction.Manual) bool { return j == job })
}

// PickStep reserves and returns the next step of a call of Compact, or a compaction
// of level 0 that comes before it. If it returns no plan, blocked reports whether
// plans in flight are in the way. If they are not, nothing is left to compact.
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
	if plan.Kind == compaction.Nothing && !blocked { // its last step
		plan, blocked = compaction.PickCovered(meta, s.env.Options(), s.inFlight.WithAside())
	}
	if plan.Kind == compaction.Nothing {
		return nil, blocked
	}
	s.reserveLocked(&plan)
	return &plan, true
}

// PlaceIngest chooses the level for tables with keys from smallest to largest.
// If that is not level 0, compactions do not write there until FreeInputs.
func (s *Scheduler) PlaceIngest(smallest, largest []byte) *compaction.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := compaction.PlaceIngest(s.env.Version(), s.env.Options(), s.inFlight, smallest, largest)
	if plan.To > 0 {
		s.inFlight.Add(&plan)
	}
	return &plan
}

// Split cuts the plan's key range into parts that can be merged in parallel, and
// takes a free worker for each part after the first. A step of Compact leaves
// one worker to level 0. The caller gives len(cuts) workers back, each with PartDone.
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

// Idle reports whether no compaction is running or due.
func (s *Scheduler) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, _ := s.nextLocked()
	return s.running == 0 && plan.Kind == compaction.Nothing
}

// Unused reports whether no worker is busy, no table
// is reserved and no call of Compact waits for a step.
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

// PartDone gives back a worker that Split has taken. Another compaction may have it.
func (s *Scheduler) PartDone() {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// Done gives back the worker and the inputs of a plan, in one step. A pick
// between the two would avoid inputs that no compaction uses any more.
func (s *Scheduler) Done(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeWorkerLocked(plan)
	s.inFlight.Remove(plan)
}

// given wakes the goroutines that wait for a worker or for inputs.
// It is called without mu, whether or not the plan succeeded.
func (s *Scheduler) given() {
	s.Nudge()
	s.env.Changed()
}

// FreeWorker gives the plan's worker back. The inputs stay reserved until FreeInputs.
func (s *Scheduler) FreeWorker(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeWorkerLocked(plan)
}

// freeWorkerLocked counts the plan as ended. Requires: mu is held.
func (s *Scheduler) freeWorkerLocked(plan *compaction.Plan) {
	if !plan.ByRequest() {
		s.running--
	}
	s.env.Started(-1)
}

// FreeInputs gives the plan's tables and key range back.
func (s *Scheduler) FreeInputs(plan *compaction.Plan) {
	defer s.given()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.Remove(plan)
}

// SetAside keeps automatic compactions away from a damaged table, and returns
// its number. err is the error of the plan. Each further merge would meet the
// damage again. Reads of the table and Compact still get the error. If err is
// not damage in an input of the plan, SetAside does nothing, and ok is false.
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

// TakeBack undoes SetAside, because the table has turned out to be
// whole, or is gone. It reports whether the table was set aside.
func (s *Scheduler) TakeBack(num base.FileNum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	aside := s.inFlight.IsAside(num)
	s.inFlight.TakeBack(num)
	return aside
}

// Begin returns the Attempt for an automatic compaction that is about to begin.
func (s *Scheduler) Begin() Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Compacted records the result of an automatic compaction, and returns how many have
// failed in a row. An error is not kept for CompactionFailure if a compaction of a
// later round has ended already: after RetryNow, this one is tried again at once.
func (s *Scheduler) Compacted(a Attempt, err error) (failures int) {
	defer s.env.Changed() // writers may wait for level 0
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

// CompactionFailure returns why the last automatic compaction failed, or nil if it succeeded.
func (s *Scheduler) CompactionFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compactErr
}

// RetryNow begins another round: compactions that have failed, or fail from
// now on in an earlier round, are tried again at once. The returned function
// reports whether a compaction has ended that began after the call.
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

// Stuck returns why level 0 will not become shallower, or nil if it may. The reason is that
// compactions fail, or that every compaction of level 0 would read a damaged table.
func (s *Scheduler) Stuck() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compactErr != nil {
		return s.compactErr
	}
	return s.damageInTheWayLocked()
}

// damageInTheWayLocked returns the error of a damaged table if it is the
// reason why there is nothing left to compact, or nil. Requires: mu is held.
func (s *Scheduler) damageInTheWayLocked() error {
	if !s.inFlight.AnyAside() || !s.inFlight.Empty() {
		return nil
	}
	meta := s.env.Version()
	if meta == nil || compaction.Pick(meta, s.planOptionsLocked(meta), s.inFlight).Kind != compaction.Nothing {
		return nil
	}
	return s.asideErr
}

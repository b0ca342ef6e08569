package shale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// compactLoop starts compactions whenever the tree has changed, up to
// CompactionWorkers at a time, each in a goroutine that Close waits for.
func (db *DB) compactLoop() {
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-db.compactWake:
		}
		for {
			plan := db.pickCompaction()
			if plan == nil {
				break
			}
			db.background.Go(func() {
				err := db.runPlanInRoom(db.ctx, plan)
				if db.setAside(plan, err) {
					db.compactFailures(nil) // it will not be tried again
					db.donePlan(plan)
				} else if err != nil && db.ctx.Err() == nil {
					// Its inputs stay reserved, so that others get a turn.
					db.freeWorker(plan)
					db.counters.retries.Add(1)
					wake(db.compactWake)
					db.sleep(retryDelay(db.compactFailures(err)))
					db.freeInputs(plan)
				} else {
					db.compactFailures(nil)
					db.donePlan(plan)
					wake(db.recoverWake)
				}
				wake(db.compactWake)
			})
		}
	}
}

// setAside keeps automatic compactions away from an input of the plan in which err met
// damage, and says whether that is what happened. A merge would meet it again each
// time; reads of it get the error, and so does Compact.
func (db *DB) setAside(plan *compaction.Plan, err error) bool {
	var damage *CorruptionError
	if !errors.As(err, &damage) {
		return false
	}
	kind, num, ok := base.ParseFileName(damage.File)
	if !ok || kind != base.FileTable || !plan.Reads(num) {
		return false
	}
	db.mu.Lock()
	db.inFlight.SetAside(num)
	db.asideErr = err
	db.mu.Unlock()
	db.emit(Event{Kind: EventTableSetAside, Reason: "damaged", Tables: []uint64{uint64(num)}, Err: err})
	return true
}

// takeBack lets automatic compactions have a table again that has turned out to be
// whole.
func (db *DB) takeBack(num base.FileNum) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.inFlight.IsAside(num) {
		db.inFlight.TakeBack(num)
		wake(db.compactWake)
	}
}

// damageInTheWayLocked returns the damage because of which level 0 can't be compacted
// any more, or nil. Requires: db.mu is held.
func (db *DB) damageInTheWayLocked() error {
	if !db.inFlight.AnyAside() || !db.inFlight.Empty() {
		return nil
	}
	if plan := compaction.Pick(db.version.meta, db.planOptionsLocked(), db.inFlight); plan.Kind != compaction.Nothing {
		return nil
	}
	return db.asideErr
}

// compactFailures counts the failures in a row.
func (db *DB) compactFailures(err error) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.compactErr = err
	if err == nil {
		db.failedCompactions = 0
	} else {
		db.failedCompactions++
		db.changed.Broadcast() // to writers that wait for level 0
	}
	return db.failedCompactions
}

// pickCompaction reserves the next compaction, or returns nil.
func (db *DB) pickCompaction() *compaction.Plan { return db.pickFor(db.opts.CompactionWorkers) }

// pickFor is pickCompaction for so many workers.
func (db *DB) pickFor(workers int) *compaction.Plan {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closing || db.running >= workers {
		db.counters.seeks.price.Store(math.MaxInt64)
		return nil
	}
	plan, forSeeks := db.pickLocked()
	if plan.Kind == compaction.Nothing || (plan.From == 0 || db.compactErr != nil) && db.requestsFirstLocked() {
		return nil
	}
	if forSeeks {
		db.counters.seeks.spend()
	}
	db.reserveLocked(&plan)
	return &plan
}

// reserveLocked keeps other compactions away from the plan's tables and range:
// so the tables stay in every version until donePlan. A step of Compact has its
// caller's goroutine and takes no worker.
func (db *DB) reserveLocked(plan *compaction.Plan) {
	db.inFlight.Add(plan)
	db.counters.compacting.Add(1)
	if plan.ByRequest() {
		db.level0Next = true
		return
	}
	db.running++
	if plan.From == 0 {
		db.level0Next = false
	}
}

// Steps of Compact and compactions of level 0 take turns, because both may need the
// same tables: so level 0 waits for one step at most, and Compact comes to an end
// while writers keep level 0 due.

// level0TurnLocked returns the compaction of level 0 that comes before the next step
// of Compact, if there is one. The caller of Compact carries it out itself: all
// workers may be busy below. Requires: db.mu is held.
func (db *DB) level0TurnLocked() (plan compaction.Plan, ok bool) {
	if !db.level0Next || db.opts.CompactionWorkers < 1 {
		return compaction.Plan{}, false
	}
	plan = compaction.PickLevel0(db.version.meta, db.planOptionsLocked(), db.inFlight)
	return plan, plan.Kind != compaction.Nothing
}

// requestsFirstLocked says whether a compaction of level 0 has to let a step of
// Compact go first. After a failure every automatic compaction has to: while it waits to
// be tried again its inputs are reserved, and Compact would wait for it each time
// instead of returning the error. Requires: db.mu is held.
func (db *DB) requestsFirstLocked() bool {
	if db.level0Next && db.compactErr == nil {
		return false
	}
	for _, job := range db.requests {
		if job.Ready(db.version.meta, db.planOptionsLocked(), db.inFlight.WithAside()) {
			return true
		}
	}
	return false
}

// donePlan undoes reserveLocked, all at once: a pick between the worker's
// return and the inputs' would choose around inputs that nobody uses.
func (db *DB) donePlan(plan *compaction.Plan) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.freeWorkerLocked(plan)
	db.freeInputsLocked(plan)
}

// freeWorker gives back the worker that reserveLocked took.
func (db *DB) freeWorker(plan *compaction.Plan) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.freeWorkerLocked(plan)
}

func (db *DB) freeWorkerLocked(plan *compaction.Plan) {
	if !plan.ByRequest() {
		db.running--
	}
	db.counters.compacting.Add(-1)
	db.changed.Broadcast()
}

// freeInputs gives back the tables and the range.
func (db *DB) freeInputs(plan *compaction.Plan) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.freeInputsLocked(plan)
}

func (db *DB) freeInputsLocked(plan *compaction.Plan) {
	db.inFlight.Remove(plan)
	db.changed.Broadcast()
}

func (db *DB) planOptions() compaction.Options {
	return compaction.Options{
		MemtableSize: db.opts.MemtableSize,
		TableSize:    db.opts.TableSize,
		BaseBytes:    db.opts.testing.baseSize,
		LevelRuns:    db.opts.testing.runs,
		DropSeq:      base.MaxSeq,
		FuseLast:     db.opts.LastLevelFilter == FuseFilter,
	}
}

// planOptionsLocked is planOptions with what the open snapshots need. Requires:
// db.mu is held.
func (db *DB) planOptionsLocked() compaction.Options {
	o := db.planOptions()
	if len(db.snapshots) > 0 {
		o.DropSeq = db.snapshots[0]
	}
	return o
}

// runPlan carries a reserved plan out.
func (db *DB) runPlan(ctx context.Context, plan *compaction.Plan) error {
	begin := time.Now()
	v := db.acquireView()
	if v == nil {
		return ErrClosed
	}
	defer db.releaseVersion(v.version)
	e := Event{Kind: EventCompaction, Reason: plan.Reason, Level: plan.To}
	var out sinks
	var edit *manifest.Edit
	var err error
	if plan.Kind == compaction.Merging {
		out, err = db.merge(ctx, v, plan, &e)
	}
	opened := out.tables()
	if err == nil {
		edit = plan.Edit(addedTables(plan.To, plan.OutputRun(), opened)...)
		err = db.install(edit, opened, func(*view) { // counted before anybody sees it
			db.counters.compactions.Add(1)
			db.counters.compactBytes.Add(uint64(e.BytesOut))
			db.counters.compactReadBytes.Add(uint64(e.BytesIn))
		})
	}
	if err != nil {
		out.discard()
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.Is(err, ErrClosed) {
			return err // called off, not failed
		}
		db.noteCorruption(err)
		db.emit(Event{Kind: EventBackgroundError, Reason: "compaction", Level: plan.To, Err: err})
		return err
	}
	for _, t := range opened {
		e.Tables = append(e.Tables, uint64(t.meta.Num))
	}
	e.Duration = time.Since(begin)
	db.deleteObsolete()
	db.emit(e)
	return nil
}

func addedTables(level int, run uint64, tables []*table) []manifest.Added {
	added := make([]manifest.Added, len(tables))
	for i, t := range tables {
		added[i] = manifest.Added{Level: level, Run: run, Table: t.meta}
	}
	return added
}

// merge writes the output of a plan, in parallel sub-ranges where workers are
// free, and returns what took the tables, in the order of the ranges.
func (db *DB) merge(ctx context.Context, v *view, plan *compaction.Plan, e *Event) (sinks, error) {
	ranges := db.subRanges(plan)
	bits := db.filterBits(v.meta, plan)
	out := make(sinks, len(ranges))
	errs := make([]error, len(ranges))
	results := make([]compaction.MergeResult, len(ranges))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i, r := range ranges {
		out[i] = db.newSink(plan.To, bits)
		wg.Go(func() {
			if results[i], errs[i] = db.mergeRange(ctx, plan, r, out[i]); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	db.mu.Lock()
	db.running -= len(ranges) - 1
	db.mu.Unlock()
	err := firstCause(errs)
	if err == nil {
		err = plan.CheckMerged(results...)
	}
	for _, s := range out {
		e.BytesOut += s.bytes
	}
	e.BytesIn = plan.InputBytes()
	return out, err
}

// firstCause returns the error that made the others give up.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// subRanges cuts the plan's key range into as many parts as workers are free,
// and takes those workers. A step of Compact leaves one to level 0.
func (db *DB) subRanges(plan *compaction.Plan) []Range {
	db.mu.Lock()
	free := db.opts.CompactionWorkers - db.running
	if plan.ByRequest() {
		free--
	}
	var cuts [][]byte
	if free > 0 {
		cuts = compaction.SplitRanges(plan, free+1)
	}
	db.running += len(cuts)
	db.mu.Unlock()
	ranges := make([]Range, len(cuts)+1)
	for i, cut := range cuts {
		ranges[i].Upper, ranges[i+1].Lower = cut, cut
	}
	return ranges
}

// mergeRange merges one sub-range.
func (db *DB) mergeRange(ctx context.Context, plan *compaction.Plan, r Range, s *sink) (compaction.MergeResult, error) {
	src := db.planIterator(plan)
	result, err := compaction.Merge(ctx, src, compaction.MergeOptions{
		Snapshots:    db.snapshotSeqs(),
		Older:        plan.Older,
		Grandparents: plan.Grandparents,
		Guards:       plan.Guards,
		TableSize:    db.opts.TableSize,
		Lower:        r.Lower,
		Upper:        r.Upper,
		NewOutput:    s.newOutput,
	})
	if cerr := src.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.open()
	}
	return result, err
}

// compactionReadahead is how much a compaction reads of a table at a time.
const compactionReadahead = 256 << 10

// planIterator merges the plan's inputs, newest run first.
func (db *DB) planIterator(plan *compaction.Plan) base.Iterator {
	var iters []base.Iterator
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, in := range plan.Inputs {
		tables := make([]*table, len(in.Tables))
		for i, meta := range in.Tables {
			tables[i] = db.tables[meta.Num]
		}
		iters = append(iters, iter.NewConcat(len(tables), tableSource{
			tables: tables,
			opts:   sstable.IterOptions{NoFill: true, Readahead: compactionReadahead},
		}))
	}
	return iter.NewMerging(iters...)
}

// filterBits applies the entropy rule to the plan's output.
func (db *DB) filterBits(meta *manifest.Version, plan *compaction.Plan) float64 {
	if db.opts.FilterBits < 0 {
		return 0
	}
	o := db.planOptions()
	o.Probe = db.probes.update(db.counters.lookupCounts)
	return compaction.FilterBitsForPlan(meta, plan, o, db.opts.FilterBits, db.opts.FilterMemory)
}

// Compact merges all that was written before the call and overlaps r down to the
// last level, so that deleted and overwritten entries in r give their space back, as
// far as no snapshot needs them. It waits until that is done, or until ctx is. Reads,
// writes and automatic compactions go on meanwhile, in turns with it, and several calls
// may run at once; what is written meanwhile may stay where it is. Options.CompactionWorkers
// does not count the calls. If a table is damaged, Compact returns the CorruptionError.
func (db *DB) Compact(ctx context.Context, r Range) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	r = r.clone()
	if r.empty() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.ctx, cancel)()
	job := compaction.NewManual(r.Lower, r.Upper)
	for {
		plan, err := db.pickManual(ctx, job)
		if err != nil {
			return err
		}
		if plan == nil {
			db.awaitDeletions(ctx)
			return nil
		}
		err = db.runPlanInRoom(ctx, plan)
		if err != nil && !plan.ByRequest() && db.setAside(plan, err) {
			err = nil // the damage may lie outside r
		}
		db.donePlan(plan)
		if err != nil {
			if db.ctx.Err() != nil {
				return ErrClosed
			}
			return fmt.Errorf("shale: compact: %w", err)
		}
		wake(db.compactWake)
	}
}

// pickManual reserves the next step of a manual compaction, or a compaction of level 0
// that comes before it. It waits for others that are in its way; nil: it is done.
func (db *DB) pickManual(ctx context.Context, job *compaction.Manual) (*compaction.Plan, error) {
	stop := context.AfterFunc(ctx, db.broadcast)
	defer stop()
	defer wake(db.compactWake) // level 0 may have let this step go first
	db.mu.Lock()
	defer db.mu.Unlock()
	db.requests = append(db.requests, job)
	defer func() {
		db.requests = slices.DeleteFunc(db.requests, func(j *compaction.Manual) bool { return j == job })
	}()
	for {
		if db.closing {
			return nil, ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		plan, blocked := db.level0TurnLocked()
		if !blocked {
			plan, blocked = job.Next(db.version.meta, db.planOptionsLocked(), db.inFlight.WithAside())
		}
		if plan.Kind != compaction.Nothing {
			db.reserveLocked(&plan)
			return &plan, nil
		}
		if !blocked {
			return nil, nil
		}
		db.changed.Wait()
	}
}

// tableSource opens the iterators of a run's tables as they are needed.
type tableSource struct {
	tables []*table
	opts   sstable.IterOptions
}

func (s tableSource) Bounds(i int) (smallest, largest []byte) {
	return s.tables[i].meta.Smallest, s.tables[i].meta.Largest
}

func (s tableSource) Open(i int) (base.Iterator, error) {
	return s.tables[i].reader.NewIteratorWith(nil, s.opts), nil
}

// A snapshotList holds the sequence numbers of open snapshots, ascending, with
// repeats.
type snapshotList []base.Seq

func (l *snapshotList) add(seq base.Seq) {
	i, _ := slices.BinarySearch(*l, seq)
	*l = slices.Insert(*l, i, seq)
}

func (l *snapshotList) remove(seq base.Seq) {
	if i, ok := slices.BinarySearch(*l, seq); ok {
		*l = slices.Delete(*l, i, i+1)
	}
}

// snapshotSeqs returns the sequence numbers that flushes and compactions have
// to keep readable, ascending.
func (db *DB) snapshotSeqs() []base.Seq {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Compact(slices.Clone([]base.Seq(db.snapshots)))
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/tree"
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
		case <-db.scheduler.Woken():
		}
		for plan := db.scheduler.Pick(); plan != nil; plan = db.scheduler.Pick() {
			db.background.Go(func() { db.compactInBackground(plan) })
		}
	}
}

// compactInBackground carries out an automatic compaction.
func (db *DB) compactInBackground(plan *compaction.Plan) {
	s := db.scheduler
	attempt := s.Begin()
	err := db.runPlanInRoom(db.ctx, plan)
	if db.setAside(plan, err) {
		s.Compacted(attempt, nil) // it will not be tried again
		s.Done(plan)
	} else if err != nil && db.ctx.Err() == nil {
		// Its inputs stay reserved, so that others get a turn.
		s.FreeWorker(plan)
		db.counters.retries.Add(1)
		db.sleepUnless(attempt.Retry, retryDelay(s.Compacted(attempt, err)))
		s.FreeInputs(plan)
	} else {
		s.Compacted(attempt, nil)
		s.Done(plan)
		db.health.Nudge()
	}
}

// takeBack lets automatic compactions have a table again that has turned out to be
// whole.
func (db *DB) takeBack(num base.FileNum) {
	if db.scheduler.TakeBack(num) {
		db.scheduler.Nudge()
	}
}

// setAside keeps automatic compactions away from the table that err says is damaged,
// if the plan reads it, and says whether it did.
func (db *DB) setAside(plan *compaction.Plan, err error) bool {
	num, ok := db.scheduler.SetAside(plan, err)
	if ok {
		db.events.emit(Event{Kind: EventTableSetAside, Reason: "damaged", Tables: []uint64{uint64(num)}, Err: err})
	}
	return ok
}

// runPlanInRoom is runPlan that is tried again with what the store can give up of
// its room.
func (db *DB) runPlanInRoom(ctx context.Context, plan *compaction.Plan) error {
	err := db.runPlan(ctx, plan)
	if base.IsNoSpace(err) && db.giveUpRoom() {
		err = db.runPlan(ctx, plan)
	}
	return err
}

// runPlan carries a reserved plan out.
func (db *DB) runPlan(ctx context.Context, plan *compaction.Plan) error {
	begin := time.Now()
	v := db.acquireView()
	if v == nil {
		return ErrClosed
	}
	defer db.tree.Release(v.Version)
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
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "compaction", Level: plan.To, Err: err})
		return err
	}
	for _, t := range opened {
		e.Tables = append(e.Tables, uint64(t.Meta.Num))
	}
	e.Duration = time.Since(begin)
	db.deleter.Run()
	db.events.emit(e)
	return nil
}

func addedTables(level int, run uint64, tables []*tree.Table) []manifest.Added {
	added := make([]manifest.Added, len(tables))
	for i, t := range tables {
		added[i] = manifest.Added{Level: level, Run: run, Table: t.Meta}
	}
	return added
}

// merge writes the output of a plan, in parallel sub-ranges where workers are
// free, and returns what took the tables, in the order of the ranges.
func (db *DB) merge(ctx context.Context, v *view, plan *compaction.Plan, e *Event) (sinks, error) {
	ranges := db.subRanges(plan)
	bits := db.filterBits(v.Meta, plan)
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
	db.scheduler.Merged(len(ranges) - 1)
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

// subRanges cuts the plan's key range into as many parts as workers are free.
func (db *DB) subRanges(plan *compaction.Plan) []Range {
	cuts := db.scheduler.Split(plan)
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
		Snapshots:    db.snapshots.List(),
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
	for _, in := range plan.Inputs {
		tables := db.tree.TablesOf(in.Tables)
		iters = append(iters, iter.NewConcat(len(tables), tableSource{
			tables: tables,
			opts:   sstable.IterOptions{NoFill: true, Readahead: compactionReadahead},
		}))
	}
	return iter.NewMerging(iters...)
}

// filterBits returns how many bits a key the filters of the plan's output get.
func (db *DB) filterBits(meta *manifest.Version, plan *compaction.Plan) float64 {
	tree := compaction.FilterTree(meta, plan, db.planOptions())
	filters := db.filterPolicy().Plan(tree, db.counters.probeShares())
	return filters.Bits(plan.To, plan.OutputRun())
}

// Compact merges all that was written before the call and overlaps r down to the
// last level, so that deleted and overwritten entries in r give their space back, as
// far as no snapshot needs them. It waits until that is done, or until ctx is. Reads,
// writes and automatic compactions go on meanwhile, in turns with it, and several calls
// may run at once; what is written meanwhile may stay where it is. Options.CompactionWorkers
// does not count the calls. If a table is damaged, Compact returns the CorruptionError. If
// automatic compactions that are in its way fail, and fail again, it returns why.
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
		plan, err := db.pickStep(ctx, job)
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
		db.scheduler.Done(plan)
		if err != nil {
			if db.ctx.Err() != nil {
				return ErrClosed
			}
			return fmt.Errorf("shale: compact: %w", err)
		}
	}
}

// pickStep reserves the next step of Compact. It waits for others that are in its
// way, unless they fail: those keep their inputs until they are tried again. So
// pickStep has them tried at once, and returns why they have failed again. nil: Compact
// is done.
func (db *DB) pickStep(ctx context.Context, job *compaction.Manual) (plan *compaction.Plan, err error) {
	s := db.scheduler
	s.Request(job)
	defer s.Nudge() // level 0 may have let this step go first
	defer s.Withdraw(job)
	var retried func() bool
	db.changes.await(ctx, func() bool {
		if db.closing() {
			err = ErrClosed
			return true
		}
		if err = ctx.Err(); err != nil {
			return true
		}
		var blocked bool
		if plan, blocked = s.PickStep(job); plan != nil || !blocked {
			return true
		}
		switch failed := s.CompactionFailure(); {
		case failed == nil:
		case retried == nil:
			retried = s.RetryNow()
		case retried():
			err = fmt.Errorf("shale: compact: %w", failed)
		}
		return err != nil
	})
	return plan, err
}

// tableSource opens the iterators of a run's tables as they are needed.
type tableSource struct {
	tables []*tree.Table
	opts   sstable.IterOptions
}

func (s tableSource) Bounds(i int) (smallest, largest []byte) {
	return s.tables[i].Meta.Smallest, s.tables[i].Meta.Largest
}

func (s tableSource) Open(i int) (base.Iterator, error) {
	return s.tables[i].Reader.NewIteratorWith(nil, s.opts), nil
}

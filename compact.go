package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
	"github.com/shaledb/shale/internal/lifetime"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// This file makes compactions, automatic ones and those of Compact.

// An automatic compaction takes these steps:
//
//  1. The scheduler is nudged when there may be something to compact: after a flush or an
//     ingestion, after another compaction, when reads have paid for a compaction, or when
//     the oldest snapshot is closed and the last level has many tombstones.
//  2. compactLoop, on a goroutine of its own, asks the scheduler for plans (Pick). A plan
//     that it gets is reserved: until Done no other plan takes its tables and its key
//     range. So its tables are in every version, and can be read, until its own edit
//     removes them.
//  3. compactInBackground, on a goroutine for each plan, calls runPlan. If the plan is to
//     merge, merge writes new tables and makes them durable. A plan that moves or drops
//     tables writes none.
//  4. installPlan makes the edit durable in the manifest, and then shows the next version to
//     readers (see DB.installed).
//  5. Done gives the reservation back, and nudges the scheduler.
//
// Compact carries out plans of its own in steps 3 to 5, one after the other, on the
// goroutine of its caller. If a plan fails, readers go on with the version before it.

// compactLoop starts automatic compactions, at most CompactionWorkers at a time. It looks
// for plans whenever the scheduler is nudged, until there is no plan or no free worker. It
// returns when Close begins. Close waits for it and for the goroutines that it starts.
func (db *DB) compactLoop() {
	looked := int64(0) // up to this time it has looked what has expired
	for {
		expiry := db.nextExpiry(looked)
		select {
		case <-db.life.Context.Done():
			return
		case <-db.scheduler.Woken():
		case <-db.nextLook():
			if !db.scheduler.ReadsPay() {
				continue
			}
		case <-expiry:
		}
		looked = db.overForAll()
		// Go is safe although Close may be waiting for the group, which counts this
		// goroutine.
		for plan := db.scheduler.Pick(); plan != nil; plan = db.scheduler.Pick() {
			db.life.Background.Go(func() { db.compactInBackground(plan) })
		}
	}
}

// lookEvery is how often compactLoop looks what point lookups have earned. They are too many
// to wake it, as seeks do.
const lookEvery = 100 * time.Millisecond

// nextLook returns a channel for the time of the next look, or nil if lookups can't pay for a
// compaction now: there is none to pay for, or they ask no run of level 0.
func (db *DB) nextLook() <-chan time.Time {
	v := db.mems.View()
	if db.scheduler.Reads.Price.Load() == math.MaxInt64 || v == nil || len(v.Meta.Levels[0].Runs) == 0 {
		return nil
	}
	return time.After(lookEvery)
}

// compactInBackground carries out an automatic compaction, and gives its worker and its
// inputs back. Requires: the scheduler has reserved plan.
//
// A plan that meets a damaged table does not count as a failure: the table is set aside,
// and the next Pick makes plans without it. After any other failure the worker is free at
// once, and the inputs after a delay, which RetryNow ends early. The next Pick would
// otherwise choose the same plan again, and other compactions would not get a turn.
func (db *DB) compactInBackground(plan *compaction.Plan) {
	s := db.scheduler
	attempt := s.Begin()
	err := base.Survive(func() error { return db.runPlanInRoom(db.life.Context, plan) })
	if left := (*base.PanicError)(nil); errors.As(err, &left) {
		db.backgroundError("compaction", err)
	}
	if db.setAside(plan, err) {
		s.Compacted(attempt, nil) // this plan will not be tried again
		s.Done(plan)
	} else if err != nil && db.life.Context.Err() == nil {
		s.FreeWorker(plan)
		db.counters.retries.Add(1)
		db.life.SleepUnless(attempt.Retry, lifetime.RetryDelay(s.Compacted(attempt, err)))
		s.FreeInputs(plan)
	} else {
		s.Compacted(attempt, nil)
		s.Done(plan)
		db.health.Nudge() // a store that lacks room may have some again
	}
}

// takeBack ends what setAside has done: automatic compactions may take the table again.
// Verify calls it for each table that is whole.
func (db *DB) takeBack(num base.FileNum) {
	if db.scheduler.TakeBack(num) {
		db.scheduler.Nudge()
	}
}

// setAside reports whether err is damage in a table that the plan reads. If so, automatic
// compactions leave that table alone, because each of them would meet the damage again.
// This lasts until Verify finds the table whole, or until the next Open. EventTableSetAside
// reports it.
func (db *DB) setAside(plan *compaction.Plan, err error) bool {
	num, ok := db.scheduler.SetAside(plan, err)
	if ok {
		db.events.emit(Event{Kind: EventTableSetAside, Reason: "damaged", Tables: []uint64{uint64(num)}, Err: err})
	}
	return ok
}

// runPlanInRoom calls runPlan. If the disk is full, it gives up the space that the store
// has reserved ahead, and tries once more. Requires: the plan is reserved; the caller does
// not lead the commit queue and holds no lock.
func (db *DB) runPlanInRoom(ctx context.Context, plan *compaction.Plan) error {
	freed := db.deleter.Freed()
	err := db.runPlan(ctx, plan)
	if base.IsNoSpace(err) && db.giveUpRoom(freed) {
		err = db.runPlan(ctx, plan)
	}
	return err
}

// runPlan carries out a plan. When it returns nil, the next version is durable and readers
// see it. After an error they do not, and the new tables are removed, unless a torn
// manifest may name them. Then they stay until the next manifest is written. The error is
// reported here, unless Close or the caller's context has ended the work. Requires: the
// plan is reserved. The caller gives the reservation back.
func (db *DB) runPlan(ctx context.Context, plan *compaction.Plan) error {
	begin := time.Now()
	v := db.mems.Acquire()
	if v == nil {
		return ErrClosed
	}
	// The inputs are in v, so their files stay until the merge is done with them.
	defer db.tree.Release(v.Version)
	e := Event{Kind: EventCompaction, Reason: plan.Reason, Level: plan.To}
	var out sinks
	var edit *manifest.Edit
	var err error
	clock := plan.Clock()
	if plan.Kind == compaction.Merging {
		out, clock, err = db.merge(ctx, v, plan, &e)
	}
	opened := out.tables()
	if err == nil {
		edit = plan.Edit(addedTables(plan.To, plan.OutputRun(), opened)...)
		edit.Clock = clock
		if err = db.syncOwnersTime(clock); err == nil {
			err = db.installPlan(edit, opened, &e)
		}
	}
	if err != nil {
		out.discard()
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) || errors.Is(err, ErrClosed) {
			return err // it was called off and has not failed
		}
		db.noteCorruption(err)
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "compaction", Level: plan.To, Err: err})
		return err
	}
	for _, t := range opened {
		e.Tables = append(e.Tables, uint64(t.Meta.Num))
	}
	e.Duration = time.Since(begin)
	db.events.emit(e)
	return nil
}

// installPlan makes the edit of a plan durable and visible. e says what the plan has read and written.
func (db *DB) installPlan(edit *manifest.Edit, opened []*tree.Table, e *Event) error {
	c := db.tree.Begin()
	defer c.End()
	if err := c.Log(edit, opened, nil); err != nil {
		return err
	}
	// The counters grow before readers see the version. Metrics loads the view first,
	// so it never shows tables of a compaction that it does not count.
	db.counters.compactions.Add(1)
	db.counters.compactBytes.Add(uint64(e.BytesOut))
	db.counters.compactReadBytes.Add(uint64(e.BytesIn))
	old := db.mems.End(db.mems.Begin(c.Next))
	db.installed(c, old)
	return nil
}

func addedTables(level int, run uint64, tables []*tree.Table) []manifest.Added {
	added := make([]manifest.Added, len(tables))
	for i, t := range tables {
		added[i] = manifest.Added{Level: level, Run: run, Table: t.Meta}
	}
	return added
}

// merge writes the output of a plan. It cuts the range of keys into parts, one for each free
// worker, and returns when all of them have ended (compaction.InParts). A part that ends gives its worker
// back at once, unless it is the last one: other compactions need not wait for the longest part.
//
// The sinks have the new tables, in the order of the parts. The caller discards them if it
// gets an error, or if it fails later. Requires: the plan is reserved and is to merge; the
// caller holds v.
func (db *DB) merge(ctx context.Context, v *memqueue.View, plan *compaction.Plan, e *Event) (_ sinks, clock int64, _ error) {
	ranges := db.subRanges(plan)
	bits := db.filterBits(v.Meta, plan)
	out := make(sinks, len(ranges))
	for i := range out {
		out[i] = db.newSink(plan.To, bits)
	}
	results := make([]compaction.MergeResult, len(ranges))
	var busy atomic.Int64
	busy.Store(int64(len(ranges)))
	err := compaction.InParts(ctx, len(ranges), func(ctx context.Context, i int) (err error) {
		defer func() {
			if busy.Add(-1) > 0 { // the last worker is the plan's own
				db.scheduler.PartDone()
			}
		}()
		results[i], err = db.mergeRange(ctx, v.Meta, plan, ranges[i], out[i])
		return err
	})
	if err == nil {
		// All parts together must have read each entry of the inputs. A part that ended
		// early without an error would lose keys, because the edit removes its inputs.
		err = plan.CheckMerged(results...)
	}
	for i, s := range out {
		e.BytesOut += s.bytes
		clock = max(clock, results[i].Clock())
	}
	e.BytesIn = plan.InputBytes()
	return out, clock, err
}

// subRanges cuts the plan's key range into as many parts as workers are free, that of the
// plan included. It takes these workers, and the caller gives them back with
// Scheduler.PartDone. A cut ends one part, exclusively, and begins the next. So all versions
// of a user key are in one part. The first part has no lower bound and the last no upper
// one.
func (db *DB) subRanges(plan *compaction.Plan) []Range {
	cuts := db.scheduler.Split(plan)
	ranges := make([]Range, len(cuts)+1)
	for i, cut := range cuts {
		ranges[i].Upper, ranges[i+1].Lower = cut, cut
	}
	return ranges
}

// mergeRange merges one part of the plan's range into tables of s, which are durable and
// open when it returns nil. After an error the caller discards s.
func (db *DB) mergeRange(ctx context.Context, meta *manifest.Version, plan *compaction.Plan, r Range, s *sink) (compaction.MergeResult, error) {
	src := db.planIterator(plan, r.Upper)
	// A snapshot that is taken later sees all that the inputs have: see
	// commit.Snapshots.Take.
	o := db.mergeOptions()
	o.Spans = []*spans.Set{meta.Spans}
	o.Older, o.Grandparents, o.Guards = plan.Older, plan.Grandparents, plan.Guards
	o.TableSize = plan.TableSize()
	o.Lower, o.Upper = r.Lower, r.Upper
	o.NewOutput = s.newOutput
	result, err := compaction.Merge(ctx, src, o)
	// An error of reading must not pass for the end of the inputs.
	if cerr := src.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.open()
	}
	s.clean(result)
	return result, err
}

// compactionReadahead is how many bytes of a table a compaction reads at a time.
// RebuildFilters reads tables in the same way.
const compactionReadahead = 256 << 10

// planIterator returns an iterator over the entries of the plan's inputs below upper, and perhaps some
// more; nil: over all. It merges the runs of the inputs, newest first. Blocks that it reads do not enter
// the cache, where they would displace what lookups need. Requires: the plan is reserved.
func (db *DB) planIterator(plan *compaction.Plan, upper []byte) base.Iterator {
	var iters []base.Iterator
	for _, in := range plan.Inputs {
		tables := db.tree.TablesOf(in.Tables)
		for upper != nil && len(tables) > 0 && bytes.Compare(tables[len(tables)-1].Meta.Smallest, upper) >= 0 {
			tables = tables[:len(tables)-1] // it would be opened when the one before it ends
		}
		iters = append(iters, iter.NewConcat(len(tables), tableSource{
			tables: tables,
			opts:   sstable.IterOptions{NoFill: true, Readahead: compactionReadahead, Upper: upper},
		}))
	}
	return iter.NewMerging(iters...)
}

// filterBits returns how many bits a key the filters of the plan's output get; 0: there are
// none. It plans the filters of the tree as it will be after the compaction.
func (db *DB) filterBits(meta *manifest.Version, plan *compaction.Plan) float64 {
	tree := compaction.FilterTree(meta, plan, db.planOptions())
	filters := db.filterPolicy().Plan(tree, db.counters.probeShares(emptyLevels(meta)))
	return filters.Bits(plan.To, plan.OutputRun())
}

// Compact merges all that was written before the call and overlaps r down to the last
// level, so that deleted and overwritten entries in r give their space back, as far as no
// snapshot needs them. It waits until that is done, or until ctx is done. Reads, writes and
// automatic compactions go on meanwhile and take turns with it. Several calls may run at
// once. They need not move what is written meanwhile, and [Options.CompactionWorkers] does not
// count them.
//
// If a table is damaged, Compact returns the [CorruptionError]. If automatic compactions that
// are in its way fail, and fail again, it returns why.
func (db *DB) Compact(ctx context.Context, r Range) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	if err := db.life.Begin(); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	r = r.clone()
	if r.empty() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Close waits for this call, so Close must also end it.
	defer context.AfterFunc(db.life.Context, cancel)()
	job := compaction.NewManual(r.Lower, r.Upper, db.commits.Visible())
	for {
		plan, err := db.pickStep(ctx, job)
		if err != nil {
			return err
		}
		if plan == nil {
			db.awaitDeletions(ctx)
			return nil
		}
		if err := db.carryOut(ctx, plan); err != nil {
			if db.life.Context.Err() != nil {
				return ErrClosed
			}
			return fmt.Errorf("shale: compact: %w", err)
		}
	}
}

// carryOut carries out a plan of Compact, and gives its inputs back, also if the file system
// panics. Requires: the plan is reserved.
func (db *DB) carryOut(ctx context.Context, plan *compaction.Plan) error {
	defer db.scheduler.Done(plan)
	err := db.runPlanInRoom(ctx, plan)
	// Another's plan is a compaction of level 0 whose turn came before this step.
	if err != nil && !plan.ByRequest() && db.setAside(plan, err) {
		return nil // the damage may lie outside the range of Compact
	}
	return err
}

// pickStep reserves the next step of Compact; nil: Compact is done. While other plans are
// in the way, it waits for them. A plan that has failed keeps its inputs until it is tried
// again. So pickStep has it tried at once, and returns the cause if it fails again.
func (db *DB) pickStep(ctx context.Context, job *compaction.Manual) (plan *compaction.Plan, err error) {
	s := db.scheduler
	s.Request(job)
	defer s.Nudge() // while the request stood, compactions of level 0 may have let it go first
	defer s.Withdraw(job)
	var retried func() bool
	db.changes.Await(ctx, func() bool {
		if db.life.Closing() {
			err = ErrClosed
			return true
		}
		if err = base.ContextError(ctx); err != nil {
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

// A tableSource is a run of tables for iter.NewConcat, which opens one table at a time.
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

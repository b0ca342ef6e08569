package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/wal"
)

// How tables and steps come into the bucket. A step names only what is there already, so the order
// is always the same: ship the log, upload the tables, PUT the step. ship.go has the logs,
// upload.go the tables, collecting.go what is deleted.

// A publisher puts the tables of the store into the bucket, and the steps that name them:
//
//  1. It holds the tables of this moment, and ships the log up to this moment (hold).
//  2. It uploads the tables and sidecars that the last step lacks (upload). Those that were born and
//     merged away since the last step never travel.
//  3. It notes in the directory which step it is about to PUT, and PUTs it if the name is free
//     (chain.publish). A name that is taken by another step means that another writer owns the store.
//  4. It lets the tables go, and every 256 steps it writes the state.
type publisher struct {
	mu lock // held while a step is made and PUT; taken before ship.mu; protects the following fields

	chain    *chain.Chain    // up to the newest step of this writer that is in the bucket
	named    uint64          // how many of the segments that were passed the newest step names: see shipper.passed
	uploaded map[uint64]bool // tables and sidecars that are in the bucket and in no step yet
	state    bool            // the state after a step is due

	lookedForTables time.Time
	collector       collector
}

// Publish puts the tables that the bucket lacks into it now, and a step that names them. It ships first,
// and so a restore of that step has all that was written before the call. If nothing has changed
// since the last step, it does nothing. It does that every [Options.Publish] by itself.
func (s *Store) Publish(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	return s.publishAll(ctx, s.bucket)
}

// publishAll is Publish for callers inside.
func (s *Store) publishAll(ctx context.Context, b Bucket) error {
	p := &s.publish
	if err := p.mu.take(ctx); err != nil {
		return err
	}
	defer p.mu.release()
	for {
		err := s.publishOnce(ctx, b)
		if !errors.Is(err, chain.ErrOtherStep) {
			return err
		}
		// An earlier attempt had succeeded, and its answer was lost: what is new since then is another
		// step.
	}
}

// publishOnce makes one step and PUTs it. Requires: publish.mu.
func (s *Store) publishOnce(ctx context.Context, b Bucket) error {
	if err := s.moved(); err != nil {
		return err
	}
	if err := s.putState(ctx, b); err != nil { // there may have been many restarts since the last one
		return err
	}
	h, err := s.hold(ctx, b)
	if err != nil {
		return err
	}
	// Held tables stay on the local disk until the step names them. Without that a compaction could
	// remove one in the midst of its upload.
	defer h.Release()
	step, sent, err := s.nextStep(ctx, b, h)
	if err != nil || step == nil {
		return s.superseded(ctx, err) // another owner deletes what this one uploads
	}
	return s.putStep(ctx, b, step, sent, h.passed)
}

// mostToRead is how many segments behind the newest step, and how many steps behind the newest state, Close leaves for the
// next Open to read.
const mostToRead = 4

// publishEnd makes that the next Open has little to read: it PUTs a step that names the segments since the last one,
// and a state, if there are many. They name no new tables, so nothing is uploaded. Requires: nothing that was
// shipped waits for tables.
func (s *Store) publishEnd(ctx context.Context) error {
	p := &s.publish
	if err := p.mu.take(ctx); err != nil {
		return err
	}
	defer p.mu.release()
	if err := s.ship.mu.take(ctx); err != nil {
		return err
	}
	// The extents and their count belong together, so both are read under ship.mu.
	passed := s.ship.passed
	step := &object.Step{
		Written: time.Now(), Kind: object.StepPublish, LastTableSeq: p.chain.Step.LastTableSeq,
		Extents: neededExtents(slices.Clone(s.ship.extents), p.chain.State.Tables.MinLog),
	}
	s.ship.mu.release()
	if p.chain.N()-p.chain.Stated >= mostToRead {
		p.state = true
	}
	if passed-p.named >= mostToRead {
		return s.putStep(ctx, s.bucket, step, transfer{}, passed)
	}
	return s.putState(ctx, s.bucket)
}

// holdTries is how often hold begins again because of ingestions.
// Programs that ingest all the time would otherwise keep it from ever making a step.
const holdTries = 10

// A heldState is a state of the store that becomes a step.
type heldState struct {
	*shale.Hold
	last    uint64          // all writes up to this number are in its tables
	extents []object.Extent // what the bucket has of the logs, at least up to this state
	passed  uint64          // shipper.passed up to there
}

// hold holds the tables of the store, and ships up to where the log is then. So the extents have all
// that is not in the tables. The other way round, they must have no ingestion that the tables lack:
// if one comes in between, hold begins again.
func (s *Store) hold(ctx context.Context, b Bucket) (heldState, error) {
	if err := s.ship.mu.take(ctx); err != nil {
		return heldState{}, err
	}
	defer s.ship.mu.release()
	for try := 0; ; try++ {
		h, err := s.holdOnce(ctx, b)
		// A mark above last belongs to an ingestion whose tables were not held yet. After holdTries
		// the step is made all the same: restores of it end before the ingestion, and the next step
		// brings the rest.
		if err == nil && (s.ship.missing.Load() <= h.last || try == holdTries) {
			return h, nil
		}
		if h.Hold != nil {
			h.Release()
		}
		if err != nil {
			return heldState{}, err
		}
	}
}

// holdOnce is one attempt of hold. Requires: ship.mu.
func (s *Store) holdOnce(ctx context.Context, b Bucket) (h heldState, err error) {
	if h.Hold, err = shale.ShippingOf(s.db).Hold(); err != nil {
		return h, fmt.Errorf("remote: publish: %w", local(err))
	}
	if h.last, err = s.lastTableSeq(h.State()); err == nil {
		_, err = s.shipAllLocked(ctx, b)
	}
	h.extents, h.passed = neededExtents(slices.Clone(s.ship.extents), s.minLog(h.State())), s.ship.passed
	return h, err
}

// A transfer counts the files that were uploaded for a step.
type transfer struct {
	objects int
	bytes   int64
}

// nextStep uploads what the bucket lacks of the tables in h, and makes the step that names them. It
// returns nil if nothing has changed. Requires: publish.mu.
func (s *Store) nextStep(ctx context.Context, b Bucket, h heldState) (*object.Step, transfer, error) {
	before, held := s.publish.chain.State, h.State()
	edit := diff(before.Tables.Version, held.Version)
	// A step without changes may be needed: the first one, and one that says that no write is missing.
	needed := before.Tables.MinLog == 0 && held.MinLog > 0 || s.lacksTables()
	if !edit.ChangesVersion() && slices.Equal(h.extents, before.Extents) && !needed {
		return nil, transfer{}, nil
	}
	// LastSeq says which ingestions the tables have, and MinLog which logs they need. Both are
	// those of the held tables, and not of the store as it is by now.
	edit.NextFileNum, edit.LastSeq, edit.MinLog = held.NextFileNum, base.Seq(h.last), s.minLog(held)
	edit.Clock = held.Clock // what the tables lack because it has expired is over for all who read them
	sent, err := s.upload(ctx, b, before.Tables.Version, edit.Added)
	return &object.Step{
		StoreID: s.id, Written: time.Now(), Kind: object.StepPublish,
		Edit: edit, Extents: h.extents, LastTableSeq: h.last,
	}, sent, err
}

// lastTableSeq returns the number up to which all writes are in the tables that are held. The last of
// them may be deletions that no table needs: then only the first log that is needed says that
// they were before it. Requires: ship.mu, which keeps that log.
func (s *Store) lastTableSeq(held *manifest.State) (uint64, error) {
	last := max(uint64(held.LastSeq), s.publishedSeq.Load())
	for _, l := range held.Logs {
		if l.Num < s.minLog(held) {
			continue
		}
		h, err := wal.ReadHeader(s.fs, s.dir, l.Num, s.id, 0)
		if err != nil {
			return 0, fmt.Errorf("remote: publish: %w", local(err))
		}
		return max(last, uint64(h.PrevSeq)), nil
	}
	return last, nil
}

// minLog returns the number of the first log that a step with the tables that are held needs: one of this epoch, because
// Open has flushed what earlier ones had (beginList). The manifest may still keep an earlier log: a flush that ends
// before the next log has begun does not let its own go. A step that named it would have a restore read the
// logs of another writer, behind a gap that only the step explains, and end there.
func (s *Store) minLog(held *manifest.State) base.FileNum {
	return max(held.MinLog, base.FileNum(object.AnchorOf(s.epoch).Log))
}

// neededExtents returns the extents of logs from min up, and of the last one in any case: its end is
// where the chain of logs goes on.
func neededExtents(extents []object.Extent, min base.FileNum) []object.Extent {
	for len(extents) > 1 && extents[0].Log < uint64(min) {
		extents = extents[1:]
	}
	return extents
}

// diff returns the edit that turns the tables of one version into the tables of another.
func diff(from, to *manifest.Version) *manifest.Edit {
	type position struct {
		level int
		run   uint64
		table *manifest.Table
	}
	edit := new(manifest.Edit)
	old := make(map[base.FileNum]position)
	for added := range placedTables(from) {
		old[added.Table.Num] = position{added.Level, added.Run, added.Table}
	}
	// A table with another level, run or sidecar is removed and added again. What is left in old
	// after the loop has no table in to.
	for added := range placedTables(to) {
		was, there := old[added.Table.Num]
		delete(old, added.Table.Num)
		if there && was.level == added.Level && was.run == added.Run && sameSidecar(was.table, added.Table) {
			continue
		}
		if there {
			edit.Removed = append(edit.Removed, manifest.Removed{Level: was.level, Num: was.table.Num, Table: was.table})
		}
		edit.Added = append(edit.Added, added)
	}
	for _, gone := range old {
		edit.Removed = append(edit.Removed, manifest.Removed{Level: gone.level, Num: gone.table.Num, Table: gone.table})
	}
	slices.SortFunc(edit.Removed, func(a, b manifest.Removed) int { // equal diffs are equal bytes
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Num, b.Num))
	})
	edit.Finished, edit.Spans = manifest.SpansBetween(from.Spans, to.Spans)
	return edit
}

// placedTables goes through the tables of a version, with their levels and runs.
func placedTables(v *manifest.Version) iter.Seq[manifest.Added] {
	return func(yield func(manifest.Added) bool) {
		for level := range v.Levels {
			for _, run := range v.Levels[level].Runs {
				for _, t := range run.Tables {
					if !yield(manifest.Added{Level: level, Run: run.ID, Table: t}) {
						return
					}
				}
			}
		}
	}
}

// sameSidecar reports whether two descriptions of a table name the same sidecar, or none.
// A table may get its sidecar long after it was made. The next step has to bring it, although the
// table is the same.
func sameSidecar(a, b *manifest.Table) bool {
	if a.Sidecar == nil || b.Sidecar == nil {
		return a.Sidecar == b.Sidecar
	}
	return a.Sidecar.Num == b.Sidecar.Num
}

// putStep PUTs a step, which names passed segments, and tells waiting writers. If an earlier attempt stands in its place, the
// error wraps chain.ErrOtherStep: that one is the newest step now, and the caller makes another. Requires: publish.mu.
func (s *Store) putStep(ctx context.Context, b Bucket, step *object.Step, sent transfer, passed uint64) error {
	p := &s.publish
	// The uploads may have taken minutes. The shipper may have met another owner in that time, and
	// then no step is tried.
	if err := s.Err(); err != nil {
		return err
	}
	err := s.appendStep(ctx, b, step)
	if err != nil && !errors.Is(err, chain.ErrOtherStep) {
		return err
	}
	if err == nil {
		p.uploaded, p.named = nil, passed // the step names them
	}
	s.sent(sent.bytes)
	s.emit(Event{Kind: EventPublished, Step: p.chain.N(), Tables: sent.objects, Bytes: sent.bytes})
	if perr := s.putState(ctx, b); perr != nil {
		return perr
	}
	return err
}

// appendStep PUTs a step, and tells waiting writers of the newest one, which may be another: then the error wraps
// chain.ErrOtherStep. If another writer owns the store, this one is fenced. Requires: publish.mu.
func (s *Store) appendStep(ctx context.Context, b Bucket, step *object.Step) error {
	err := s.publish.chain.Publish(ctx, b, step, s.noteStep)
	switch {
	case errors.Is(err, ErrFenced):
		return s.fenced(err)
	case err != nil && !errors.Is(err, chain.ErrOtherStep):
		return fmt.Errorf("remote: publish: %w", err)
	}
	s.tellNewest()
	return err
}

// putState PUTs the state after the newest step, if one is due. Requires: publish.mu.
// If that fails, the newest step stands all the same: a state makes restores quicker and no step
// valid. The next step tries again.
func (s *Store) putState(ctx context.Context, b Bucket) error {
	p := &s.publish
	if !p.state && p.chain.N()-p.chain.Stated < s.opts.testing.states {
		return nil
	}
	if err := p.chain.PutState(ctx, b); err != nil {
		return fmt.Errorf("remote: publish: %w", err)
	}
	p.state, p.chain.Stated = false, p.chain.N()
	p.collector.states = append(p.collector.states, writtenState{p.chain.N(), p.chain.Step.Written})
	return nil
}

// publishLoop publishes at once, every Options.Publish, and when tables were ingested. It also flushes
// the memtable when it is old. If Options.Publish is negative it only publishes, and only when
// writers wait for tables (MaxLag): they would wait for ever if the program has nobody else to call Publish.
func (s *Store) publishLoop(ctx context.Context) {
	// The loop works on a bucket that reports how each attempt goes. Calls of the program return
	// their errors instead.
	b := s.reporting("publish")
	timed := s.opts.Publish > 0
	retry, last := backoff{}, time.Time{}
	// The first round comes at once: a store that has just been opened has tables that the bucket
	// may lack.
	for first := timed; ; first = false {
		wait := s.opts.Publish
		if retry.tries > 0 {
			wait = retry.delay()
		}
		if !first && !waitFor(ctx, wait, s.publishNow) {
			return
		}
		for rest := s.leastPublish() - time.Since(last); rest > 0; rest = s.leastPublish() - time.Since(last) {
			if !waitFor(ctx, rest, s.publishNow) { // the pace may have changed
				return
			}
		}
		last = time.Now()
		var err error
		if timed && !s.evicting.isFull() { // a flush would wait for the room that this step makes
			err = s.flushOld(ctx)
		}
		if err == nil {
			err = s.publishAll(ctx, b)
		}
		if err == nil && timed {
			err = s.lookForTables(ctx, b)
		}
		if ctx.Err() != nil {
			return
		}
		s.report("publish", err)
		retry.tried(err)
	}
}

// leastPublish is how long a store that ingests all the time waits between two steps. Each step takes requests, and time of
// whoever opens or restores the store. It is shorter if writers wait for the tables.
func (s *Store) leastPublish() time.Duration {
	pace := s.evicting.pace()
	if s.opts.Strict || s.opts.MaxLag > 0 {
		pace = min(pace, time.Second)
	}
	return min(max(s.opts.Publish, 0), pace)
}

// flushOld makes a table of the memtable if it has writes that are older than Options.Flush. Requires:
// one goroutine at a time calls it.
func (s *Store) flushOld(ctx context.Context) error {
	// Each flush begins another log. So a log that was current at the look before and has records
	// still has writes from about that time. At a new log, or one without records, the time begins
	// again.
	pos := shale.ShippingOf(s.db).Position()
	if pos.Log != s.flushLog || pos.Written <= object.LogHeader {
		s.flushLog, s.flushSince = pos.Log, time.Now()
		return nil
	}
	if s.opts.Flush < 0 || time.Since(s.flushSince) < s.opts.Flush {
		return nil
	}
	// With LocalBytes a flush may wait for room, which the tables of the next step make. The flush goes on then, and another
	// step has its table.
	wait, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	if err := s.db.Flush(wait); err != nil && (wait.Err() == nil || ctx.Err() != nil) {
		return fmt.Errorf("remote: flush: %w", local(err))
	}
	return nil
}

// flushWait is how long a step waits for the flush of an old memtable.
const flushWait = 10 * time.Second

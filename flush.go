package shale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lifetime"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
)

// This file turns immutable memtables into runs of level 0. memqueue.Queue knows which is next,
// whose turn it is, and how fast the flushes are:
//
//  1. The leader of the commit queue makes the memtable immutable and wakes flushLoop.
//  2. flushOldest takes its turn and calls flush. writeRun merges the memtable into a new table,
//     which becomes durable.
//  3. installFlush writes the edit to the manifest, and then changes the view: in one step the
//     table comes, the memtable goes, and so do the logs that nothing needs any more.
//  4. flushEnded releases the memtable and wakes those that waited for the flush.
//
// If a step fails, the memtable stays in the view and its log on disk, so nothing is lost.
// flushLoop tries again after a while.

// A flushOutcome describes a flush that has ended, well or not.
type flushOutcome struct {
	imm  *memqueue.Immutable
	out  []*tree.Table // the tables that imm has become, if err is nil
	took time.Duration
	err  error
}

// flushLoop flushes all immutable memtables whenever the queue wakes it. When a flush fails it
// tries again after lifetime.RetryDelay. It is a goroutine of the store's own, and ends when the store is
// closing, or when the directory is lost, since nothing can be written any more.
func (db *DB) flushLoop() {
	for failed := 0; ; {
		select {
		case <-db.life.Context.Done():
			return
		case <-db.mems.FlusherWoken():
		}
		for !db.life.Closing() && db.mems.View().Oldest() != nil {
			err := db.flushOldest()
			if err == nil {
				failed = 0
				continue
			}
			if db.life.Closing() || errors.Is(err, ErrMoved) {
				return
			}
			failed++
			_ = base.Survive(func() error { db.retryFlushLater(err); return nil }) // what it gives up is only room
			if !db.life.Sleep(lifetime.RetryDelay(failed)) {
				return
			}
		}
	}
}

// flushAll flushes in the caller's goroutine until no immutable memtable is left, and returns
// the first error. flushLoop may be at work too; then they take turns. The leader of the commit
// queue may call it, since a flush never waits for the queue.
func (db *DB) flushAll() error {
	for db.mems.View().Oldest() != nil {
		if err := db.flushOldest(); err != nil {
			return err
		}
	}
	return nil
}

// flushOldest flushes the oldest immutable memtable, if there is one.
func (db *DB) flushOldest() error {
	imm := db.mems.BeginFlush()
	if imm == nil {
		return nil
	}
	defer db.mems.EndFlush()
	f := flushOutcome{imm: imm}
	begin := time.Now()
	imm.Mem.Pack() // one goroutine at a time may do that
	f.err = base.Survive(func() (err error) {
		f.out, err = db.flushInRoom(imm)
		return err
	})
	f.took = time.Since(begin)
	db.mems.Flushed(f.err)
	db.flushEnded(f)
	return f.err
}

// flushInRoom is flush with a second attempt: if the disk is full and the store can give back
// room that it has reserved, it does so and flushes again.
func (db *DB) flushInRoom(imm *memqueue.Immutable) ([]*tree.Table, error) {
	freed := db.deleter.Freed()
	out, err := db.flush(imm)
	if err != nil && db.giveUpFor("flush", freed, err) {
		out, err = db.flush(imm)
	}
	return out, err
}

// flushEnded reports the outcome of a flush, to those that wait for room and in an event.
// After a flush that succeeded it releases the memtable, which no view has any more; readers
// that have pinned it go on. Then it wakes what a flush makes possible: deletions,
// compactions, and writes to a store that had no room.
func (db *DB) flushEnded(f flushOutcome) {
	db.changes.Broadcast()
	e := Event{Kind: EventFlush, Duration: f.took, BytesIn: f.imm.Mem.Size(), Err: f.err}
	if f.err != nil {
		if f.err != ErrClosed { // Close has ended the flush: that is no failure, the log has it all
			e.Kind, e.Reason = EventBackgroundError, "flush"
			db.events.emit(e)
		}
		return
	}
	f.imm.Mem.Release()
	for _, t := range f.out {
		e.Tables = append(e.Tables, uint64(t.Meta.Num))
		e.BytesOut += t.Meta.Size
	}
	db.events.emit(e)
	db.deleter.Run()
	db.scheduler.Nudge()
	db.health.Nudge()
}

// retryFlushLater prepares for another attempt of a flush that failed because of err. Requires: it
// is not the caller's turn to flush, since giveUpRoom waits for a turn to lead the commit queue, and the
// leader may be waiting for a flush.
func (db *DB) retryFlushLater(err error) {
	db.counters.retries.Add(1)
	if base.IsNoSpace(err) {
		db.giveUpRoom(0)
	}
}

// flush writes the memtable into tables and puts them in its place. If it fails, the memtable
// stays in the view, and the tables are removed, unless the manifest may name them: see
// sink.discard. Requires: it is the caller's turn.
func (db *DB) flush(imm *memqueue.Immutable) ([]*tree.Table, error) {
	s := db.newSink(0, db.filterPolicy().FlushBits())
	installed := false
	defer func() {
		if !installed { // also if the file system has panicked
			s.discard()
		}
	}()
	snapshots, _ := db.snapshots.List()
	deletes := imm.Mem.Spans().Prune(snapshots) // those that are taken later see all of them
	clock, err := db.writeRun(imm, s)
	if err == nil {
		err = db.syncOwnersTime(clock)
	}
	if err == nil {
		err = db.installFlush(imm, s.tables, deletes, clock)
	}
	installed = err == nil
	return s.tables, err
}

// writeRun writes the memtable into the tables of a new run, and opens them. It drops the
// versions that no snapshot sees and that a newer one hides, or a range delete of this memtable,
// which becomes durable in one step with the tables. Those of newer memtables may be lost in a
// crash that spares these tables. Tombstones stay, because the tables
// below may have older versions of their keys. It returns ErrClosed if Close cuts it short. clock is
// that of compaction.MergeResult.
func (db *DB) writeRun(imm *memqueue.Immutable, s *sink) (clock int64, err error) {
	src := imm.Mem.NewIterator()
	defer src.Close()
	// A snapshot that is taken after List sees the newest version of each key of this memtable:
	// all of them were visible when the memtable became immutable. That version always stays.
	opts := db.mergeOptions()
	opts.Spans = []*spans.Set{imm.Mem.Spans()}
	opts.NewOutput = s.newOutput
	r, err := compaction.Merge(db.life.Context, src, opts)
	if err == nil {
		err = s.open()
	}
	s.clean(r)
	if db.life.Closing() && errors.Is(err, context.Canceled) {
		return 0, ErrClosed // and not an error of the file system that says so
	}
	return r.Clock(), err
}

// installFlush makes the tables, and its range deletes, part of the store in place of the memtable, durably, and lets
// the logs go that only this memtable needed. On an error the view is as before. Requires:
// it is the caller's turn, and imm is the oldest immutable memtable.
func (db *DB) installFlush(imm *memqueue.Immutable, out []*tree.Table, deletes *spans.Set, clock int64) error {
	minLog := db.mems.LogAfter(imm)
	edit := &manifest.Edit{MinLog: minLog, LastSeq: imm.Mem.LastSeq(), Spans: deletes, Clock: clock}
	bytes := int64(0)
	for _, t := range out {
		edit.Added = append(edit.Added, manifest.Added{Level: 0, Run: uint64(out[0].Meta.Num), Table: t.Meta})
		bytes += t.Meta.Size
	}
	// WrittenSince loads the view first and flushedSeq second. So flushedSeq must grow before
	// the view changes: else WrittenSince could find neither the memtable in the view nor a
	// number which says that the memtable is in tables, and PutIfAbsent would overwrite a key.
	db.mems.Raise(imm.Mem.LastSeq())
	e := db.tree.Begin()
	defer e.End()
	if err := e.Log(edit, out, nil); err != nil {
		return err
	}
	// This is done before Flush returns, which waits for the view only. The caller runs the deleter.
	db.obsolete(db.logs.DropBelow(minLog)...)
	db.counters.flushes.Add(1)
	db.counters.flushBytes.Add(uint64(bytes))
	v := db.mems.Begin(e.Next)
	v.Imms = v.Imms[: len(v.Imms)-1 : len(v.Imms)-1]
	old := db.mems.End(v)
	db.installed(e, old)
	return nil
}

// Flush writes the memtables to tables, and waits until that is done or until ctx is done. If
// ctx ends first, the flush itself goes on.
func (db *DB) Flush(ctx context.Context) error {
	if err := db.beginUsable(ctx); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	err := db.flushNow(ctx)
	if base.IsNoSpace(err) {
		db.giveUpRoom(0) // or the flusher has done so meanwhile
		err = db.flushNow(ctx)
	}
	return err
}

// flushNow is one attempt of Flush: it repeats a flush that has failed, makes the memtable
// immutable, and waits for the flusher.
func (db *DB) flushNow(ctx context.Context) error {
	if err := db.retryFlush(); err != nil {
		return callError("flush", err)
	}
	if err := db.rotateNow(ctx); err != nil {
		return err
	}
	return db.awaitFlushes(ctx)
}

// retryFlush repeats a flush that has failed, in the caller's goroutine and without the flusher's
// delay: the caller may have removed the cause. If the last flush has not failed, it does nothing.
func (db *DB) retryFlush() error {
	if db.mems.FlushFailure() == nil {
		return nil
	}
	return db.flushAll()
}

// rotateNow makes the memtable immutable and queues it for flushing, unless it is empty. Before
// that it waits for room, as a writer does. It leads the commit queue meanwhile.
func (db *DB) rotateNow(ctx context.Context) error {
	return db.commits.Alone(ctx, func() error {
		if db.mems.View().Mem.Empty() {
			return nil
		}
		if err := db.awaitRoom(ctx); err != nil {
			return err
		}
		return db.rotate()
	})
}

// awaitFlushes waits until the memtables that are immutable at the call are in tables. It does
// not wait for those that become immutable later. It returns an error if the last flush has
// failed, the store is closing, or ctx is done.
func (db *DB) awaitFlushes(ctx context.Context) (err error) {
	last := db.mems.View()
	if last == nil || len(last.Imms) == 0 {
		return nil
	}
	newest := last.Imms[0].Mem.LastSeq()
	db.changes.Await(ctx, func() bool {
		v := db.mems.View()
		oldest := v.Oldest()
		switch {
		case v == nil || db.life.Closing():
			err = ErrClosed
		case oldest == nil || oldest.Mem.LastSeq() > newest:
			return true
		case ctx.Err() != nil:
			err = base.ContextError(ctx)
		default:
			if failed := db.mems.FlushFailure(); failed != nil {
				err = fmt.Errorf("shale: flush: %w", failed)
			}
		}
		return err != nil
	})
	return err
}

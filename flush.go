package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
)

// A flusher turns immutable memtables into runs of level 0, oldest first, one at a
// time.
type flusher struct {
	flusherEnv
	wake  chan struct{} // to loop: there may be something to flush
	mu    sync.Mutex    // one flush at a time: loop's, or that of a caller of flushAll
	speed flushSpeed
	// flushedSeq is the highest sequence number in a table. It grows before
	// the memtable that had it leaves the view.
	flushedSeq atomic.Uint64
}

// A flusherEnv is what a flusher needs from the store.
type flusherEnv struct {
	oldest  func() *immutable                                   // the next memtable to flush; nil: there is none
	started func(n int64)                                       // n flushes more are under way
	flush   func(imm *immutable) (out []*tree.Table, err error) // writes imm into tables and puts them in its place
	ended   func(f flushOutcome)
	retry   func(err error) // before a flush that failed because of err is tried again
	sleep   func(d time.Duration) (open bool)
}

// A flushOutcome tells of a flush that has ended.
type flushOutcome struct {
	imm  *immutable
	out  []*tree.Table // what has become of imm
	took time.Duration
	err  error
}

func newFlusher(env flusherEnv) *flusher {
	return &flusher{flusherEnv: env, wake: make(chan struct{}, 1)}
}

// loop flushes whenever it is woken, and tries again with back-off when that fails.
func (f *flusher) loop(ctx context.Context) {
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		for ctx.Err() == nil && f.oldest() != nil {
			err := f.flushOldest()
			if err == nil {
				failed = 0
				continue
			}
			if ctx.Err() != nil {
				return
			}
			failed++
			f.retry(err)
			if !f.sleep(retryDelay(failed)) {
				return
			}
		}
	}
}

// flushAll flushes until no immutable memtable is left.
func (f *flusher) flushAll() error {
	for f.oldest() != nil {
		if err := f.flushOldest(); err != nil {
			return err
		}
	}
	return nil
}

// flushOldest flushes the oldest immutable memtable, if there is one. Whoever
// calls it, only one flush runs at a time.
func (f *flusher) flushOldest() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	imm := f.oldest()
	if imm == nil {
		return nil
	}
	begin := time.Now()
	f.started(1)
	defer f.started(-1)
	imm.mem.Pack()
	f.speed.started(imm.mem.Taken())
	out, err := f.flush(imm)
	f.speed.ended(err)
	f.ended(flushOutcome{imm: imm, out: out, took: time.Since(begin), err: err})
	return err
}

// raise says that all up to seq is, or is about to be, in tables. Its callers are never
// two at a time: a flush, and Ingest when nothing is left to flush.
func (f *flusher) raise(seq base.Seq) {
	if uint64(seq) > f.flushedSeq.Load() {
		f.flushedSeq.Store(uint64(seq))
	}
}

// oldestImmutable returns the next memtable to flush, or nil.
func (db *DB) oldestImmutable() *immutable {
	v := db.view.Load()
	if v == nil || len(v.imms) == 0 {
		return nil
	}
	return v.imms[len(v.imms)-1]
}

// flushInRoom is flush that is tried again with what the store can give up of its room.
func (db *DB) flushInRoom(imm *immutable) ([]*tree.Table, error) {
	out, err := db.flush(imm)
	if err != nil && db.giveUpFor("flush", err) {
		out, err = db.flush(imm)
	}
	return out, err
}

// flushEnded tells of a flush. After a good one it lets the memtable go, and wakes
// those who may go on.
func (db *DB) flushEnded(f flushOutcome) {
	db.scheduler.Flushed(f.err)
	e := Event{Kind: EventFlush, Duration: f.took, BytesIn: f.imm.mem.Size(), Err: f.err}
	if f.err != nil {
		if f.err != ErrClosed { // else the log has it all
			e.Kind, e.Reason = EventBackgroundError, "flush"
			db.events.emit(e)
		}
		return
	}
	f.imm.mem.Release()
	for _, t := range f.out {
		e.Tables = append(e.Tables, uint64(t.Meta.Num))
		e.BytesOut += t.Meta.Size
	}
	db.events.emit(e)
	db.deleter.Run()
	db.scheduler.Nudge()
	db.health.Nudge()
}

// retryFlushLater prepares for another try of a flush that failed because of err.
func (db *DB) retryFlushLater(err error) {
	db.counters.retries.Add(1)
	if base.IsNoSpace(err) {
		db.giveUpRoom()
	}
}

// flush writes the memtable into tables and puts them in its place. If it fails,
// it leaves no table behind.
func (db *DB) flush(imm *immutable) ([]*tree.Table, error) {
	s := db.newSink(0, db.filterPolicy().FlushBits())
	err := db.writeRun(imm, s)
	if err == nil {
		err = db.installFlush(imm, s.tables)
	}
	if err != nil {
		s.discard()
	}
	return s.tables, err
}

// writeRun writes the memtable into the tables of a new run.
func (db *DB) writeRun(imm *immutable, s *sink) error {
	src := imm.mem.NewIterator()
	defer src.Close()
	_, err := compaction.Merge(db.ctx, src, compaction.MergeOptions{
		Snapshots: db.snapshots.List(),
		NewOutput: s.newOutput,
	})
	if err == nil {
		err = s.open()
	}
	if errors.Is(err, context.Canceled) {
		return ErrClosed // nobody else cancels db.ctx
	}
	return err
}

// installFlush replaces the memtable by its tables in what readers see, and
// lets its logs go.
func (db *DB) installFlush(imm *immutable, out []*tree.Table) error {
	minLog := db.view.logAfter(imm)
	edit := &manifest.Edit{MinLog: minLog, LastSeq: imm.mem.LastSeq()}
	bytes := int64(0)
	for _, t := range out {
		edit.Added = append(edit.Added, manifest.Added{Level: 0, Run: uint64(out[0].Meta.Num), Table: t.Meta})
		bytes += t.Meta.Size
	}
	db.flusher.raise(imm.mem.LastSeq())
	var logs []string
	err := db.install(edit, out, func(v *view) {
		logs = db.logs.DropBelow(minLog) // before Flush returns, as the counts
		v.imms = v.imms[: len(v.imms)-1 : len(v.imms)-1]
		db.counters.flushes.Add(1)
		db.counters.flushBytes.Add(uint64(bytes))
	})
	db.removeFiles(logs...)
	return err
}

// Flush writes the memtables to tables and waits until it is done, or until
// ctx is. The flush itself goes on then.
func (db *DB) Flush(ctx context.Context) error {
	if err := db.usable(); err != nil {
		return err
	}
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	err := db.flushNow(ctx)
	if base.IsNoSpace(err) {
		db.giveUpRoom() // or the flusher has done so meanwhile
		err = db.flushNow(ctx)
	}
	return err
}

// flushNow tries once.
func (db *DB) flushNow(ctx context.Context) error {
	if err := db.retryFlush(); err != nil {
		return callError("flush", err)
	}
	if err := db.rotateNow(ctx); err != nil {
		return err
	}
	return db.awaitFlushes(ctx)
}

// retryFlush tries a flush that failed again without waiting for its time: the
// caller may have removed the cause.
func (db *DB) retryFlush() error {
	if db.scheduler.FlushFailure() == nil {
		return nil
	}
	return db.flusher.flushAll()
}

// rotateNow queues the memtable for flushing, if there is anything in it.
func (db *DB) rotateNow(ctx context.Context) error {
	return db.commits.Alone(ctx, func() error {
		if db.view.Load().mem.Empty() {
			return nil
		}
		if err := db.awaitRoom(ctx); err != nil {
			return err
		}
		return db.rotate()
	})
}

// awaitFlushes waits until the memtables that are immutable now are tables.
func (db *DB) awaitFlushes(ctx context.Context) (err error) {
	last := db.view.Load()
	if last == nil || len(last.imms) == 0 {
		return nil
	}
	newest := last.imms[0].mem.LastSeq()
	db.changes.await(ctx, func() bool {
		v := db.view.Load()
		switch {
		case v == nil || db.closing():
			err = ErrClosed
		case len(v.imms) == 0 || v.imms[len(v.imms)-1].mem.LastSeq() > newest:
			return true
		case ctx.Err() != nil:
			err = ctx.Err()
		default:
			if failed := db.scheduler.FlushFailure(); failed != nil {
				err = fmt.Errorf("shale: flush: %w", failed)
			}
		}
		return err != nil
	})
	return err
}

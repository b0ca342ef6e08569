package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// flushLoop is the store's one flusher: it turns immutable memtables into runs
// of level 0, oldest first, and tries again with back-off when that fails.
func (db *DB) flushLoop() {
	for failed := 0; ; {
		select {
		case <-db.ctx.Done():
			return
		case <-db.flushWake:
		}
		for db.ctx.Err() == nil && db.oldestImmutable() != nil {
			err := db.flushOldest()
			if err == nil {
				failed = 0
				continue
			}
			if db.ctx.Err() != nil {
				return
			}
			failed++
			db.counters.retries.Add(1)
			if base.IsNoSpace(err) {
				db.giveUpRoom()
			}
			if !db.sleep(retryDelay(failed)) {
				return
			}
		}
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

// flushAll flushes until no immutable memtable is left.
func (db *DB) flushAll() error {
	for db.oldestImmutable() != nil {
		if err := db.flushOldest(); err != nil {
			return err
		}
	}
	return nil
}

// flushOldest flushes the oldest immutable memtable, if there is one. Whoever
// calls it, only one flush runs at a time.
func (db *DB) flushOldest() error {
	db.flushMu.Lock()
	defer db.flushMu.Unlock()
	imm := db.oldestImmutable()
	if imm == nil {
		return nil
	}
	begin := time.Now()
	db.counters.flushing.Add(1)
	defer db.counters.flushing.Add(-1)
	imm.mem.Pack()
	db.flushes.started(imm.mem.Taken())
	out, err := db.flush(imm)
	if err != nil && db.giveUpFor("flush", err) {
		out, err = db.flush(imm)
	}
	db.flushes.ended(err)
	db.scheduler.flushed(err)
	e := Event{Kind: EventFlush, Duration: time.Since(begin), BytesIn: imm.mem.Size(), Err: err}
	if err != nil {
		if err != ErrClosed { // else the log has it all
			e.Kind, e.Reason = EventBackgroundError, "flush"
			db.events.emit(e)
		}
		return err
	}
	imm.mem.Release()
	for _, t := range out {
		e.Tables = append(e.Tables, uint64(t.meta.Num))
		e.BytesOut += t.meta.Size
	}
	db.events.emit(e)
	db.deleter.run()
	wake(db.scheduler.wake)
	wake(db.health.wake)
	return nil
}

// flush writes the memtable into tables and puts them in its place. If it fails,
// it leaves no table behind.
func (db *DB) flush(imm *immutable) ([]*table, error) {
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
		Snapshots: db.snapshots.list(),
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
func (db *DB) installFlush(imm *immutable, out []*table) error {
	minLog := db.view.logAfter(imm)
	edit := &manifest.Edit{MinLog: minLog, LastSeq: imm.mem.LastSeq()}
	bytes := int64(0)
	for _, t := range out {
		edit.Added = append(edit.Added, manifest.Added{Level: 0, Run: uint64(out[0].meta.Num), Table: t.meta})
		bytes += t.meta.Size
	}
	db.raiseFlushed(imm.mem.LastSeq())
	var logs []string
	err := db.install(edit, out, func(v *view) {
		logs = db.logs.dropBelow(minLog) // before Flush returns, as the counts
		v.imms = v.imms[: len(v.imms)-1 : len(v.imms)-1]
		db.counters.flushes.Add(1)
		db.counters.flushBytes.Add(uint64(bytes))
	})
	db.removeFiles(logs...)
	return err
}

// raiseFlushed says that all up to seq is, or is about to be, in tables.
func (db *DB) raiseFlushed(seq base.Seq) {
	if uint64(seq) > db.flushedSeq.Load() {
		db.flushedSeq.Store(uint64(seq))
	}
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
	if db.scheduler.flushFailure() == nil {
		return nil
	}
	return db.flushAll()
}

// rotateNow queues the memtable for flushing, if there is anything in it.
func (db *DB) rotateNow(ctx context.Context) error {
	return db.commits.alone(ctx, func() error {
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
			if failed := db.scheduler.flushFailure(); failed != nil {
				err = fmt.Errorf("shale: flush: %w", failed)
			}
		}
		return err != nil
	})
	return err
}

// flushSpeed is how fast memtables are flushed.
type flushSpeed struct {
	mu    sync.Mutex
	past  float64   // bytes a second; the last flush counts half
	bytes int64     // of the memtable that is being flushed, 0 if none is
	begin time.Time // of its flush
}

// firstFlushRate is taken for the rate of flushes before there was one.
const firstFlushRate = 16 << 20

// rate returns bytes a second. A flush that takes longer than those before it
// lowers the rate while it is under way: so writers never catch up with it.
func (f *flushSpeed) rate() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	rate := f.past
	if rate == 0 {
		rate = firstFlushRate
	}
	if f.bytes > 0 {
		rate = min(rate, ratePerSecond(f.bytes, time.Since(f.begin)))
	}
	return rate
}

func (f *flushSpeed) started(bytes int64) {
	f.mu.Lock()
	f.bytes, f.begin = bytes, time.Now()
	f.mu.Unlock()
}

func (f *flushSpeed) ended(err error) {
	f.mu.Lock()
	if err == nil && f.bytes > 0 {
		rate := ratePerSecond(f.bytes, time.Since(f.begin))
		if f.past > 0 {
			rate = (rate + f.past) / 2
		}
		f.past = rate
	}
	f.bytes = 0
	f.mu.Unlock()
}

func ratePerSecond(bytes int64, d time.Duration) float64 {
	return float64(bytes) / max(d, time.Microsecond).Seconds()
}

package shale

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// maxImmutables is how many memtables may wait to be flushed before writers
// wait too. Since they are paced from the first one on, there is a second only
// if flushes become slower or fail.
const maxImmutables = 2

// makeRoom returns when the memtable takes another group: it begins a new one
// when it is full, and holds the writers back while flushes or compactions do
// not keep up. Requires: the caller leads the queue.
func (db *DB) makeRoom(ctx context.Context) error {
	v := db.view.Load()
	if v == nil || db.ctx.Err() != nil {
		return ErrClosed
	}
	if db.health.failure.Load() != nil {
		return db.Err()
	}
	if v.mem.Taken() < db.opts.MemtableSize && db.sealed == nil {
		db.askForLog(v.mem)
		return db.hold(ctx, v)
	}
	if err := db.awaitLastFlush(ctx); err != nil {
		return err
	}
	stuck, err := db.stall(ctx)
	if stuck != nil {
		return db.health.refuse(stuck, true)
	}
	if err != nil {
		return err
	}
	return db.rotate()
}

// flushPause is the longest that a group waits for a flush to end without need.
const flushPause = 50 * time.Millisecond

// awaitLastFlush gives the flush of the memtable before a moment to end, so that
// there will not be three of them. Pacing has let it come nearly that far.
// Requires: the caller leads the queue.
func (db *DB) awaitLastFlush(ctx context.Context) error {
	if len(db.view.Load().imms) != 1 {
		return nil
	}
	begin := time.Now()
	if db.waitForFlush(ctx, begin) {
		db.slowed(stallMemtables) // not before: whether it waits shows under the lock
		took := time.Since(begin)
		db.pacer.slept += took
		db.countStall(took, stallMemtables)
	}
	return ctx.Err()
}

// waitForFlush waits for the last flush until flushPause after begin, and returns
// whether it had to.
func (db *DB) waitForFlush(ctx context.Context, begin time.Time) (waited bool) {
	timer := time.AfterFunc(flushPause, db.changes.broadcast)
	defer timer.Stop()
	db.changes.await(ctx, func() bool {
		if time.Since(begin) >= flushPause || len(db.view.Load().imms) != 1 ||
			db.scheduler.flushFailure() != nil || db.health.failure.Load() != nil || db.closing() || ctx.Err() != nil {
			return true
		}
		waited = true
		return false
	})
	return waited
}

// awaitRoom waits until there is room for another immutable memtable and level
// 0 is not too deep, unless neither will come about.
func (db *DB) awaitRoom(ctx context.Context) error {
	stuck, err := db.stall(ctx)
	if stuck != nil {
		return readOnlyError(stuck)
	}
	return err
}

// stall is awaitRoom that tells why there will be no room from why it did not wait
// for it.
func (db *DB) stall(ctx context.Context) (stuck, err error) {
	reason := db.stallReason()
	if reason == stallNone {
		return nil, nil
	}
	if stuck := db.scheduler.stuck(db.stallReason()); stuck != nil {
		return stuck, nil // without the events of a wait
	}
	db.events.emit(Event{Kind: EventStallBegin, Reason: reason.String()})
	begin := time.Now()
	defer func() {
		took := time.Since(begin)
		db.countStall(took, reason)
		db.events.emit(Event{Kind: EventStallEnd, Reason: reason.String(), Duration: took})
	}()
	return db.waitForRoom(ctx)
}

// waitForRoom waits while there is hope: stuck is why there is none.
func (db *DB) waitForRoom(ctx context.Context) (stuck, err error) {
	db.changes.await(ctx, func() bool {
		if db.stallReason() == stallNone {
			return true
		}
		switch {
		case db.closing():
			err = ErrClosed
		case ctx.Err() != nil:
			err = ctx.Err()
		case db.health.failure.Load() != nil:
			err = db.Err()
		default:
			stuck = db.scheduler.stuck(db.stallReason())
		}
		return err != nil || stuck != nil
	})
	return stuck, err
}

type stall int

const (
	stallNone stall = iota
	stallMemtables
	stallLevel0
)

func (s stall) String() string {
	return [...]string{"", "memtables wait to be flushed", "level 0 waits to be compacted"}[s]
}

// stallReason says what writers have to wait for, if anything.
func (db *DB) stallReason() stall {
	v := db.view.Load()
	switch {
	case v == nil:
		return stallNone // Close waits for nothing
	case len(v.imms) >= maxImmutables:
		return stallMemtables
	case len(v.meta.Levels[0].Runs) >= stopRuns && db.opts.CompactionWorkers > 0:
		return stallLevel0
	}
	return stallNone
}

// rotate seals the log, begins a new log and memtable, and queues the old
// memtable for flushing. If the new log can't be made, for lack of room above
// all, no harm is done: recoverLoop tries again. Requires: the caller leads the
// queue.
func (db *DB) rotate() error {
	if db.health.failure.Load() != nil {
		return db.Err()
	}
	return db.changeLogs()
}

// changeLogs is rotate, also while writes are refused.
func (db *DB) changeLogs() error {
	old, oldNum := db.wal, db.currentLogNum()
	// The old log is sealed and synced before anything in the new one can be
	// acknowledged: no crash leaves a hole between them.
	sealed, err := db.sealLog()
	if err != nil {
		return db.health.logFailed(fmt.Errorf("shale: seal log: %w", err))
	}
	if err := db.startLog(wal.Header{Prev: oldNum, PrevLen: sealed.Length, PrevSeq: sealed.LastSeq}); err != nil {
		return db.health.refuse(fmt.Errorf("shale: begin log: %w", err), true)
	}
	if err := old.Close(); err != nil {
		return db.health.logFailed(fmt.Errorf("shale: close log: %w", err))
	}
	db.mu.Lock()
	for i := range db.logs {
		if db.logs[i].num == oldNum {
			db.logs[i].sealed = true
		}
	}
	if !db.view.Load().mem.Empty() {
		db.freezeLocked()
	}
	db.memLog = db.logs[len(db.logs)-1].num
	db.mu.Unlock()
	wake(db.flushWake)
	return nil
}

// sealLog seals the log, unless a rotation has done so that could not begin the
// next one. Requires: the caller leads the queue.
func (db *DB) sealLog() (*manifest.SealedLog, error) {
	if db.sealed == nil {
		length, err := db.wal.Seal()
		if err != nil {
			return nil, err
		}
		db.sealed = &manifest.SealedLog{Num: db.currentLogNum(), Length: length, LastSeq: db.lastSeq}
	}
	return db.sealed, nil
}

// startLog creates the next log and tells the manifest of it and of the one that
// was sealed. The edit need not be durable yet: if it is lost, the log is found
// by its name.
func (db *DB) startLog(h wal.Header) error {
	w, err := db.createLog(h)
	if err != nil {
		return err
	}
	h.Num = w.Num()
	if err := db.noteLog(&manifest.Edit{NewLog: h.Num, SealedLog: db.sealed}); err != nil {
		_ = w.Close() // the manifest's error is the one to report
		return err
	}
	db.mu.Lock()
	db.logs = append(db.logs, logFile{num: h.Num})
	db.replaceLogLocked(w)
	db.mu.Unlock()
	db.wal, db.sealed = w, nil
	return nil
}

// createLog creates the log that follows h.Prev, of what is prepared if it can.
func (db *DB) createLog(h wal.Header) (*wal.Writer, error) {
	h.StoreID = db.storeID
	db.askedForLog = false
	if p := db.takePrepared(); p != nil {
		if p.Num() > h.Prev && h.Prev > 0 { // else the manifest may say that logs begin behind it
			h.Num = p.Num()
			return p.Begin(h)
		}
		db.discard(p)
	}
	h.Num = db.newFileNum()
	w, err := wal.Create(h, db.logOptions())
	if err != nil && db.giveUpFor("begin log", err) {
		h.Num = db.newFileNum()
		w, err = wal.Create(h, db.logOptions())
	}
	return w, err
}

// logOptions takes a log to be recycled, if there is one.
func (db *DB) logOptions() wal.Options {
	return wal.Options{
		FS: db.fs, Dir: db.dir, Prealloc: db.logPrealloc(), NoMap: db.opts.testing.noMap, Recycle: db.takeRecyclable(),
	}
}

// minPrepared is the least size of a memtable for which the next log is prepared
// while it fills: with smaller ones it would not be ready in time.
const minPrepared = 1 << 20

// askForLog has the next log prepared when half of the memtable is full.
// Requires: the caller leads the queue.
func (db *DB) askForLog(mem *memtable.Memtable) {
	if size := db.opts.MemtableSize; !db.askedForLog && size >= db.minPrepared() && mem.Taken() > size/2 {
		db.askedForLog = true
		wake(db.logWake)
	}
}

func (db *DB) minPrepared() int64 {
	if n := db.opts.testing.minPrepared; n > 0 {
		return n
	}
	return minPrepared
}

// prepareLog makes the file of the next log. If that fails, the rotation tries it
// itself, and tells why.
func (db *DB) prepareLog() {
	db.mu.Lock()
	have := db.prepared != nil || db.closing()
	db.mu.Unlock()
	if have || db.health.failure.Load() != nil {
		return
	}
	p, err := wal.Prepare(db.newFileNum(), db.logOptions())
	if err != nil {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "prepare log", Err: err})
		return
	}
	db.mu.Lock()
	db.prepared = p
	db.mu.Unlock()
}

// discard removes a log that was prepared for nothing. If it stays, the next Open
// removes it.
func (db *DB) discard(p *wal.Prepared) {
	if err := p.Discard(); err != nil {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove a log never used", Err: err})
	}
}

// takePrepared returns the log that is prepared, or nil.
func (db *DB) takePrepared() *wal.Prepared {
	db.mu.Lock()
	defer db.mu.Unlock()
	p := db.prepared
	db.prepared = nil
	return p
}

// replaceLogLocked makes w the current log, and what its predecessor has
// counted part of the metrics: in one step, so that Metrics meets it neither
// twice nor not at all. Requires: db.mu is held.
func (db *DB) replaceLogLocked(w *wal.Writer) {
	if old := db.currentLog.Swap(w); old != nil {
		syncs, bytes := old.Stats()
		db.counters.walSyncs.Add(syncs)
		db.counters.walBytes.Add(bytes)
	}
}

// logPrealloc is the size that a log is going to have: that of the memtable that
// it holds, with room for the group that goes beyond it.
func (db *DB) logPrealloc() int64 {
	return min(db.opts.MemtableSize+db.opts.MemtableSize/8, 64<<20) &^ 4095
}

// takeRecyclable returns an obsolete log to be used again, or 0.
func (db *DB) takeRecyclable() base.FileNum {
	db.mu.Lock()
	defer db.mu.Unlock()
	n := len(db.recyclable)
	if n == 0 {
		return 0
	}
	num := db.recyclable[n-1]
	db.recyclable = db.recyclable[:n-1]
	return num
}

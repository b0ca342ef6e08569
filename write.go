package shale

import (
	"context"
	"fmt"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/wal"
)

// This file has Put, Delete, DeleteRange, Write, PutIfAbsent and Sync.

var batchPool = sync.Pool{New: func() any { return new(Batch) }}

// maxPooledBatch keeps very large values from staying in the pool, until the garbage collector empties it. For others
// the memory is used again: to allocate it is to clear it, each time.
const maxPooledBatch = 2 << 20

// freeBatch gives b back to the pool, unless it has become large.
func freeBatch(b *Batch) {
	if cap(b.data) <= maxPooledBatch {
		b.Reset()
		batchPool.Put(b)
	}
}

// Put sets the value of key. It is durable as [Options.Durability] says, and waits while flushes or compactions are behind.
func (db *DB) Put(key, value []byte) error {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	if err := b.Put(key, value); err != nil {
		return err
	}
	return db.write(context.Background(), b)
}

// Delete removes key. Deleting an absent key is no error. It is durable as [Options.Durability] says, and
// waits while flushes or compactions are behind.
func (db *DB) Delete(key []byte) error {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	if err := b.Delete(key); err != nil {
		return err
	}
	return db.write(context.Background(), b)
}

// DeleteRange removes the keys from lower to upper, which is exclusive; nil: there is no bound. It takes the same time
// however many they are, is durable as [Options.Durability] says, and waits while flushes or compactions are behind. The
// space comes back in the background: tables that have only deleted keys go at once, unread, when the memtable is flushed.
func (db *DB) DeleteRange(lower, upper []byte) error {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	if err := b.DeleteRange(lower, upper); err != nil {
		return err
	}
	return db.write(context.Background(), b)
}

// Write applies b atomically: after a crash all of it is there or nothing, and no reader sees a part. While flushes or
// compactions are behind it waits, until ctx is done. A batch whose writing has begun is written to the end. After an
// error from the file system the outcome is unknown until the store is opened again. b may be written again, or Reset
// and reused, when Write returns. A nil batch, and one that [DecodeBatch] returned, are refused with
// [ErrBatchNotWritable].
//
// Durability says when others see the batch and when Write returns.
func (db *DB) Write(ctx context.Context, b *Batch) error {
	if b == nil {
		return fmt.Errorf("%w: it is nil", ErrBatchNotWritable)
	}
	if b.decoded {
		return fmt.Errorf("%w: it came from DecodeBatch; copy its Ops into a batch of your own", ErrBatchNotWritable)
	}
	if err := base.ContextError(ctx); err != nil {
		return err
	}
	db.snapshots.Clock.Note(b.expiring)
	return db.write(ctx, b)
}

// write is the way of Put, Delete and Write to the log and the memtable. It runs on the writer's
// goroutine:
//
//  1. It asks whether writes are refused (writable).
//  2. It puts the batch into the commit queue and waits. One of the writers in the queue leads,
//     and commits the batches of several.
//  3. The leader makes room in the memtable (makeRoom), numbers the operations (SetSeq), appends
//     them to the log (Set.Append), applies them to the memtable (Apply) and makes them visible.
//  4. Commit returns when the batch is as durable as it asks.
//
// ctx ends the waiting, for a turn or for room; a batch that the leader has begun to write is
// written to the end. After an error of the log the store refuses writes.
func (db *DB) write(ctx context.Context, b *Batch) error {
	_, err := db.writeIf(ctx, b, nil)
	return err
}

// writeIf is write, if reading passes. nil passes.
func (db *DB) writeIf(ctx context.Context, b *Batch, reading commit.Condition) (commit.Verdict, error) {
	if err := db.writable(); err != nil {
		return 0, err
	}
	durability := db.opts.Durability
	if b.ownChoice {
		if durability = b.durability; !durability.known() {
			return 0, fmt.Errorf("shale: write: the batch's durability is unknown: %d", durability)
		}
	}
	r := db.commits.NewRequest()
	defer r.Free()
	r.Batch, r.Sync, r.Reading = (*committed)(b), durability == SyncEach, reading
	err := db.commits.Commit(ctx, r)
	// In a store of another durability no timer runs, so the batch asks for its sync.
	if err == nil && durability == SyncPeriodic && db.opts.Durability != SyncPeriodic {
		db.syncer.Soon()
	}
	return r.Verdict, err
}

// PutIfAbsent sets key to value unless it is there, atomically, and reports whether it did. A key
// that no filter knows costs no disk read.
func (db *DB) PutIfAbsent(key, value []byte) (inserted bool, err error) {
	b := batchPool.Get().(*Batch)
	defer freeBatch(b)
	return db.putIfAbsent(b, key, func() error { return b.Put(key, value) })
}

// putIfAbsent is PutIfAbsent of what put adds to b.
func (db *DB) putIfAbsent(b *Batch, key []byte, put func() error) (inserted bool, err error) {
	if err := db.writable(); err != nil {
		return false, err
	}
	if err := put(); err != nil {
		return false, err
	}
	db.snapshots.Clock.Note(b.expiring)
	l := db.newLookup(key)
	for {
		// Read first, and then write on condition that the key was not written since readSeq. So
		// the disk is read outside the queue, and holds up no other writer. The number is loaded
		// before the read: a write in between is then newer than readSeq, and the condition
		// fails. Loaded after the read, the number would cover a write that the read did not see.
		readSeq := db.commits.Visible()
		found, err := db.has(&l)
		if err != nil || found {
			return false, err
		}
		r := db.commits.NewRequest()
		r.Batch, r.Sync = (*committed)(b), db.opts.Durability == SyncEach
		r.IfAbsent, r.Key, r.ReadSeq = true, key, readSeq
		err = db.commits.Commit(context.Background(), r)
		lost := r.Lost
		r.Free()
		if err != nil {
			return false, err
		}
		if !lost {
			return true, nil
		}
		l.counted, l.covered = true, false // it looks again, but is one lookup; range deletes may have come or gone
	}
}

// writable returns why writes are refused, or nil: the store is closed, was opened read-only, or
// has failed. It takes no lock. The leader asks again before it writes (makeRoom).
func (db *DB) writable() error {
	if db.mems.View() == nil {
		return ErrClosed
	}
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	return db.Err()
}

// Sync makes every write that was acknowledged before the call durable.
// Concurrent calls share one fsync.
func (db *DB) Sync() error {
	// A failure that may pass is no reason to refuse: a store that lacks room can sync what it has.
	if _, err := db.lastingFailure(); err != nil {
		return err
	}
	if err := db.life.Begin(); err != nil { // Close would close the log under us
		return err
	}
	defer db.life.Calls.Done()
	// A rotation may replace w at any time. By then it has sealed w, and so synced it.
	w := db.logs.Current()
	left := true
	defer func() {
		if left { // the file system has panicked, or called runtime.Goexit
			_ = db.syncFailed(w, fmt.Errorf("shale: sync log: %w", w.Err()))
		}
	}()
	err := w.Sync()
	left = false
	if err != nil {
		return db.syncFailed(w, fmt.Errorf("shale: sync log: %w", err))
	}
	return nil
}

// syncFailed handles a failed sync of w outside the queue: it makes the store refuse writes, and
// returns what the caller gets. If w is not the current log any more, it returns nil: w was
// synced when it was sealed, or is not needed because Resume made its writes safe in tables.
//
// If writes are refused already because a gate has refused a commit, they stay refused for that.
// Nobody would hear of the disk then, so there is an event.
func (db *DB) syncFailed(w *wal.Writer, err error) error {
	refused := db.health.SyncFailed(err, func() bool { return w == db.logs.Current() })
	if f := db.health.Current(); refused != nil && f != nil && f.Foreign {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "sync log", Err: err})
	}
	return refused
}

// Package shale is an embedded, ordered key-value store. Each of its files carries a Bloom filter that stays in memory, so
// that a lookup of an absent key reads nothing from disk.
//
// [Open] opens a store, which is a directory. [DB.Get], [DB.Has] and [DB.Scan] read it, [DB.Put] and [DB.Delete] change
// a key, and [DB.Write] makes the changes of a [Batch] at once. [DB.Update] runs a function in a transaction, [DB.View]
// runs one on one state of the store, and [DB.Sub] is the part of a store under a prefix. The [guide] has ten everyday
// tasks.
//
// # Promises
//
// A write that was acknowledged as synced survives any crash, and every acknowledged write a crash of the process. Of
// unsynced writes the first survive, up to some point, whole batches only. A reader sees one state, never half of a batch.
// A filter never hides a key: one that is damaged or unknown means that blocks are read instead. Damaged bytes give a
// [CorruptionError] with file and offset, never a wrong answer and never a panic.
//
// # Byte slices
//
// Keys and values that a call gets are only read during the call, and may be reused after it. [DB.Get] returns a copy that
// the caller owns. [DB.AppendValue] copies into a slice of the caller's, and [DB.ViewValue] shows the value without
// copying it, as long as a function runs. An [Entry] of a Scan and the Key and Value of an [Iterator] are valid until the
// next step.
//
// # Concurrency
//
// All methods of [DB] and [Snapshot] may be called concurrently. A [Batch], a [Txn] and an [Iterator] are for one goroutine
// at a time. A lookup to which all filters say no takes no lock. Writers queue, and share one write and one fsync of the
// log. Every call after Close returns [ErrClosed], except for writes that a Batch or a Txn collects.
//
// # Words
//
// A write goes to the log, a file, and to the memtable, a sorted table in memory. A flush makes a full memtable a table: a
// sorted file of blocks that never changes, with a filter. Compactions merge tables in the background, and so move them
// from level 0 down to level 6. A run is a list of tables whose keys do not overlap; level 0 has one for each flush, a
// deeper level mostly one alone. A deletion is an entry too, a tombstone, until it has met all that it deletes. Every
// operation has a sequence number, in this documentation also just its number, above those of all earlier ones.
//
// [How shale works] follows a write and a lookup through the code.
//
// [guide]: https://github.com/shaledb/shale/blob/main/docs/GUIDE.md
// [How shale works]: https://github.com/shaledb/shale/blob/main/docs/ARCHITECTURE.md
package shale

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/changes"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/health"
	"github.com/shaledb/shale/internal/lifetime"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/residency"
	"github.com/shaledb/shale/internal/scheduler"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A DB is an open store: a [Reader] and a [Writer]. All methods may be called concurrently.
type DB struct {
	// Each piece of state that changes has one owner, a type with a lock of its own.
	// Locks, in the order in which they are taken: leading the commit queue, the turn to flush,
	// logset.Set.giving, Tree.editing, residency.Filters.mu, changes.mu, Scheduler.mu, Tree.mu, Queue.mu of the memtables,
	// commit.Snapshots.mu, and then those of other packages. Package lockorder checks that in tests.

	// The owners. The pointers are constant after connect.
	life      *lifetime.Lifetime
	changes   *changes.Changes
	scheduler *scheduler.Scheduler
	health    *health.Health
	deleter   *tree.Deleter
	logs      *logset.Set
	tree      *tree.Tree
	commits   commit.Pipeline
	syncer    *logset.Syncer
	filters   *residency.Filters
	follower  *follower // of a read-only handle

	// Constant after Open.
	place
	opts   Options
	hasher bloom.Hasher // of memtables and of filters to be written
	cache  *cache.Cache
	files  *filecache.Cache

	// Read by every lookup, without a lock.
	mems           memqueue.Queue
	falsePositives *cache.FalsePositives
	counters       counters
	snapshots      commit.Snapshots // has a lock of its own; single lookups do not take it

	pacer  pacer // belongs to the leader of the commit queue
	events eventLog
}

// Close waits for running calls, stops the background work, makes every write
// durable, and releases all files and the lock. It does not wait for functions
// of Update and View. Their transactions, and others, iterators and snapshots
// that are still open return [ErrClosed] after that. A second Close returns
// ErrClosed. The error says what could not be made durable.
func (db *DB) Close() error {
	// First all that may write has to end: the broadcast makes those that wait notice that the
	// store is closing. closeLog comes after them, because a last flush or call may need the log.
	if !db.life.End() {
		return ErrClosed
	}
	db.changes.Broadcast()
	db.life.Calls.Wait()
	db.life.Background.Wait()
	db.deleter.Stop()
	// A panic of the file system is an error of Close, which does the rest all the same.
	err := base.Survive(db.closeLog)

	// From here on reads find no view. Those that are under way have pinned the memtables that
	// they search, and files.Close waits for their reads of files.
	db.mems.Close()
	closing := []func() error{
		func() error { db.files.Close(); return nil },
		func() error { db.cache.Close(); return nil },
		func() error { return db.tree.CloseManifest(db.health.Current() != nil) },
		func() error {
			if db.guard.Lost() != nil {
				return db.Err()
			}
			return nil
		},
		db.unlock, // last: once it is free, another process may open the store and write
	}
	for _, step := range closing {
		if cerr := base.Survive(step); err == nil {
			err = cerr
		}
	}
	return err
}

// closeLog ends the queue of writers and seals the log. Batches that still wait in the queue get
// ErrClosed from makeRoom.
func (db *DB) closeLog() error {
	if db.opts.ReadOnly {
		return nil
	}
	return db.commits.Alone(context.Background(), func() error {
		db.commits.Close()
		if db.pacer.held {
			db.endHold()
		}
		db.logs.DiscardPrepared()
		return db.sealForClose()
	})
}

// sealForClose makes all writes durable and notes in the manifest how long the log is. With that
// the next Open notices if a part of the log is missing. A log that has failed is not sealed: a
// seal would say that it is whole. Requires: the caller leads the queue.
func (db *DB) sealForClose() error {
	w := db.logs.Current()
	if w == nil {
		return nil
	}
	defer w.Close()
	_ = db.guard.Check() // in a directory that is lost, others may use the log
	if db.logBroken() {
		return db.Err() // acknowledged writes may not be durable
	}
	sealed, err := db.logs.Seal(db.commits.Last())
	if err != nil {
		return err
	}
	if err := db.tree.AppendEdit(&manifest.Edit{SealedLog: sealed}); err != nil {
		return err
	}
	_ = w.Trim() // only space: what was reserved for writes that did not come
	db.logs.DropRecyclable()
	return nil
}

// What follows connects the owners of the store's state. Each gets what it needs from the others
// as functions, so that none of them knows DB, and a test can stand in for it. Those functions
// that an owner calls with a lock held take only locks that come later in the order at DB.

// connect makes the owners. Their functions may need owners that are made later: they are not
// called before Open is at work, when all of them are there.
func (db *DB) connect() {
	db.deleter = tree.NewDeleter(db.dropFileAnyhow, db.changes.Broadcast)
	db.tree = tree.New(db.treeEnv())
	db.logs = logset.New(db.logEnv())
	db.health = health.New(db.healthEnv())
	db.commits.Init(db.commitEnv())
	db.mems.Init(memqueue.Options{Size: db.opts.MemtableSize, Tree: db.tree, Logs: db.logs, Health: db.health, Hasher: &db.hasher})
	db.scheduler = scheduler.New(db.schedulerEnv())
	db.syncer = db.logs.NewSyncer(db.logSyncerEnv())
	db.filters = residency.New(db.residentFiltersEnv())
	db.follower = newFollower(db)
}

func (db *DB) treeEnv() tree.Env {
	return tree.Env{
		FS: db.fs, Dir: db.dir, ReadOnly: db.opts.ReadOnly,
		Files:    db.files,
		Reading:  db.reading,
		Visible:  db.commits.Visible,
		Obsolete: db.deleter.Add,
		Remove:   db.deleter.Run,
		Failed:   db.backgroundError,
	}
}

// reading returns what the readers of all tables have in common.
func (db *DB) reading() sstable.ReaderOptions {
	return sstable.ReaderOptions{
		StoreID:  db.storeID,
		Cache:    db.cache,
		Stats:    &db.counters.tables,
		NoFilter: db.opts.FilterBits < 0,
		Unread:   func(num base.FileNum) { db.filters.LoadNow(num) },
		Retried: func(err error) {
			if !errors.Is(err, ErrClosed) { // the movement that wanted it says so
				db.events.emit(Event{Kind: EventBackgroundError, Reason: "read ahead", Err: err})
			}
		},
	}
}

func (db *DB) logEnv() logset.Env {
	return logset.Env{
		FS: db.fs, Dir: db.dir, Session: db.session, NoMap: db.opts.testing.noMap,
		MemtableSize: db.opts.MemtableSize, MinPrepared: db.opts.testing.minPrepared,
		HoldFrom:    base.FileNum(db.opts.Shipping.HoldLogs),
		KeepLog:     db.opts.KeepLog,
		NewFileNum:  db.tree.NewFileNum,
		Note:        db.tree.NoteLog,
		Remove:      db.removeFiles,
		Freed:       db.deleter.Freed,
		Held:        db.guard.Check,
		NoRoom:      db.giveUpFor,
		Failed:      db.backgroundError,
		TakesWrites: func() bool { return !db.life.Closing() && db.health.Current() == nil },
	}
}

func (db *DB) commitEnv() commit.Env {
	return commit.Env{
		SyncFirst: db.opts.Durability == SyncEach,
		Log:       db.logs, Memtables: &db.mems, Health: db.health,
		MakeRoom:   db.makeRoom,
		Gate:       db.commitGate(),
		SyncFailed: db.syncFailed,
		TailChunk:  db.opts.testing.tailChunk,
	}
}

func (db *DB) healthEnv() health.Env {
	return health.Env{
		Now: db.opts.testing.now,
		LogSyncFailed: func() bool {
			w := db.logs.Current()
			return w == nil || w.SyncFailed()
		},
		Refused: func(err error) {
			db.events.emit(Event{Kind: EventReadOnly, Err: err})
			db.changes.Broadcast()
		},
		Resumed: func(refused time.Duration) {
			db.events.emit(Event{Kind: EventResumed, Duration: refused})
			db.changes.Broadcast()
		},
	}
}

func (db *DB) schedulerEnv() scheduler.Env {
	return scheduler.Env{
		Workers: func() int { return db.opts.CompactionWorkers },
		Closing: func() bool { return db.life.Closing() || db.guard.Lost() != nil },
		Version: func() *manifest.Version {
			if v := db.mems.View(); v != nil {
				return v.Meta
			}
			return nil
		},
		Options:     db.planOptions,
		Hidden:      db.hidden,
		Flushing:    func() bool { return db.mems.View().Oldest() != nil },
		Level0Asked: func() uint64 { return db.counters.askedInVain(0) },
		Started:     func(n int64) { db.counters.compacting.Add(n) },
		Changed:     db.changes.Broadcast,
	}
}

func (db *DB) logSyncerEnv() logset.SyncerEnv {
	return logset.SyncerEnv{
		Periodic: db.opts.Durability == SyncPeriodic,
		Every:    db.opts.SyncEvery,
		Failed:   db.syncFailed,
	}
}

func (db *DB) residentFiltersEnv() residency.Env {
	return residency.Env{
		Wanted:  db.opts.FilterBits >= 0,
		Limited: db.opts.FilterMemory != 0,
		Budget:  db.filterBudget,
		Closing: db.life.Closing,
		Acquire: func() *tree.Version {
			if v := db.mems.Acquire(); v != nil {
				return v.Version
			}
			return nil
		},
		Release: db.tree.Release,
		Unreadable: func(t *tree.Table, err error) {
			if !db.takenAway(err) {
				db.filterUnusable(t, err)
			}
		},
		Delay:      lifetime.RetryDelay,
		IndexLimit: db.opts.Tuning.IndexMemory,
		UnreadableIndex: func(_ *tree.Table, err error) {
			// Lookups that need the index get the error.
			if !db.noteCorruption(err) && !db.takenAway(err) {
				db.backgroundError("read index", err)
			}
		},
	}
}

// startBackground starts the goroutines of the store. Each ends when db.life.Context is done, and Close
// waits for them. The flusher and the scheduler are woken once, because recovery may have left a
// memtable to flush, and a tree to compact.
func (db *DB) startBackground() {
	db.deleter.Start()
	db.life.Background.Go(func() { db.deleter.Loop(db.life.Context) })
	db.life.Background.Go(db.flushLoop)
	if db.opts.CompactionWorkers > 0 {
		db.life.Background.Go(db.compactLoop)
	}
	db.life.Background.Go(func() { db.syncer.Loop(db.life.Context) })
	db.life.Background.Go(func() { db.logs.Loop(db.life.Context) })
	db.life.Background.Go(func() { db.filters.Loop(db.life.Context) })
	db.life.Background.Go(db.recoverLoop)
	db.mems.WakeFlusher()
	db.scheduler.Nudge()
}

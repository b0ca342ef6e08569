package shale

import (
	"errors"
	"time"

	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/residency"
	"github.com/shaledb/shale/internal/scheduler"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
)

// This file connects the owners of the store's state. Each gets what it needs from the
// others as functions, so that none of them knows DB, and a test can stand in for it.

// connect makes the owners. Their functions are called once Open is at work, when all
// of them are there.
func (db *DB) connect() {
	db.deleter = tree.NewDeleter(db.dropFile, db.changes.broadcast)
	db.tree = tree.New(db.treeEnv())
	db.logs = logset.New(db.logEnv())
	db.commits.Init(db.commitEnv())
	db.health = newHealth(db.healthEnv())
	db.scheduler = scheduler.New(db.schedulerEnv())
	db.syncer = logset.NewSyncer(db.logSyncerEnv())
	db.flusher = newFlusher(db.flusherEnv())
	db.filters = residency.New(db.residentFiltersEnv())
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
		Retried: func(err error) {
			if !errors.Is(err, ErrClosed) { // the movement that wanted it says so
				db.events.emit(Event{Kind: EventBackgroundError, Reason: "read ahead", Err: err})
			}
		},
	}
}

func (db *DB) logEnv() logset.Env {
	return logset.Env{
		FS: db.fs, Dir: db.dir, NoMap: db.opts.testing.noMap,
		MemtableSize: db.opts.MemtableSize, MinPrepared: db.opts.testing.minPrepared,
		NewFileNum:  db.tree.NewFileNum,
		Note:        db.tree.NoteLog,
		Remove:      db.removeFiles,
		NoRoom:      db.giveUpFor,
		Failed:      db.backgroundError,
		TakesWrites: func() bool { return !db.closing() && db.health.failure.Load() == nil },
	}
}

func (db *DB) commitEnv() commit.Env {
	return commit.Env{
		SyncFirst:    db.opts.Durability == SyncEach,
		MakeRoom:     db.makeRoom,
		Append:       db.appendLog,
		Log:          db.logs.Current,
		Memtable:     func() *memtable.Memtable { return db.view.Load().mem },
		WrittenSince: db.writtenSince,
		Failed:       func(err error) error { return db.health.logFailed(err) },
		SyncFailed:   db.syncFailed,
		Wrote: func(ops, bytes uint64) {
			db.counters.writes.Add(ops)
			db.counters.writtenBytes.Add(bytes)
		},
	}
}

func (db *DB) healthEnv() healthEnv {
	return healthEnv{
		now: db.opts.testing.now,
		logSyncFailed: func() bool {
			w := db.logs.Current()
			return w == nil || w.SyncFailed()
		},
		refused: func(err error) {
			db.events.emit(Event{Kind: EventReadOnly, Err: err})
			db.changes.broadcast()
		},
		resumed: func(refused time.Duration) {
			db.events.emit(Event{Kind: EventResumed, Duration: refused})
			db.changes.broadcast()
		},
	}
}

func (db *DB) schedulerEnv() scheduler.Env {
	return scheduler.Env{
		Workers: func() int { return db.opts.CompactionWorkers },
		Closing: db.closing,
		Version: func() *manifest.Version {
			if v := db.view.Load(); v != nil {
				return v.Meta
			}
			return nil
		},
		Options:  db.planOptions,
		Flushing: func() bool { return db.oldestImmutable() != nil },
		Started:  func(n int64) { db.counters.compacting.Add(n) },
		Changed:  db.changes.broadcast,
	}
}

func (db *DB) logSyncerEnv() logset.SyncerEnv {
	return logset.SyncerEnv{
		Periodic: db.opts.Durability == SyncPeriodic,
		Every:    db.opts.SyncEvery,
		Log:      db.logs.Current,
		Failed:   db.syncFailed,
	}
}

func (db *DB) flusherEnv() flusherEnv {
	return flusherEnv{
		oldest:  db.oldestImmutable,
		started: func(n int64) { db.counters.flushing.Add(n) },
		flush:   db.flushInRoom,
		ended:   db.flushEnded,
		retry:   db.retryFlushLater,
		sleep:   db.sleep,
	}
}

func (db *DB) residentFiltersEnv() residency.Env {
	return residency.Env{
		Wanted:  db.opts.FilterBits >= 0,
		Limited: db.opts.FilterMemory != 0,
		Budget:  func(keys uint64) int64 { return db.filterPolicy().Budget(keys) },
		Closing: db.closing,
		Acquire: func() *tree.Version {
			if v := db.acquireView(); v != nil {
				return v.Version
			}
			return nil
		},
		Release:    db.tree.Release,
		Unreadable: db.filterUnusable,
	}
}

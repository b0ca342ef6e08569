// Package shale is an embedded, ordered key-value store: a log-structured
// merge tree whose tables each carry a Bloom filter that stays in memory, so
// that a lookup of an absent key is answered without touching the disk.
//
// Open opens a store; Put, Get, Has, Scan and Write do what their names say.
// Every call that has something to show has an example, which the tests run.
//
// # Promises
//
// A write that was acknowledged as synced survives any crash; every
// acknowledged write survives a crash of the process. What survives of
// unsynced writes is a prefix of the order in which they were made, whole
// batches only. A reader sees one state, never half of a batch. A filter never
// hides a key: one that is damaged or unknown means that blocks are read
// instead. Damaged bytes give a CorruptionError that names file and offset,
// never a wrong answer and never a panic.
//
// # Byte slices
//
// Arguments are only read during a call and may be reused after it. Get
// returns a copy that the caller owns. Two faster ways are named for what they
// do: AppendValue copies into a slice of the caller's, ViewValue shows the
// value without copying for as long as a function runs. An Entry of Scan and
// the Key and Value of an Iterator are valid until the next step.
//
// # Concurrency
//
// All methods of DB and Snapshot may be called concurrently. A Batch and an
// Iterator are for one goroutine at a time. A lookup to which all filters say
// no takes no lock; writers queue and share one write, and one fsync, of the
// log. Every call after Close returns ErrClosed.
//
// docs/ARCHITECTURE.md walks through the code, docs/FORMAT.md describes every
// byte on disk.
package shale

import (
	"context"
	"io"
	"path/filepath"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/residency"
	"github.com/shaledb/shale/internal/scheduler"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
)

// A DB is an open store. It is a Reader and a Writer; all methods may be
// called concurrently.
//
// Each piece of state that changes has one owner, a type with a lock of its own.
// Locks, in the order in which they are taken: leading the commit queue, flusher.mu,
// Tree.editing, residency.Filters.mu, changes.mu, Scheduler.mu, Tree.mu, readState.mu,
// snapshotList.mu, and then those of other packages.
type DB struct {
	*lifetime
	changes   *changes
	scheduler *scheduler.Scheduler
	health    *health
	deleter   *tree.Deleter
	logs      *logset.Set
	tree      *tree.Tree
	commits   commit.Pipeline
	syncer    *logset.Syncer
	flusher   *flusher
	filters   *residency.Filters

	// Constant after Open.
	place
	opts   Options
	hasher bloom.Hasher // of memtables and of filters to be written
	cache  *cache.Cache
	memory *memtable.Pool
	files  *filecache.Cache

	// Read by every lookup, without a lock.
	view           readState
	falsePositives *cache.FalsePositives
	counters       counters
	snapshots      snapshotList

	pacer  pacer // belongs to the leader of the commit queue
	events eventLog
}

// A place is where a store is.
type place struct {
	fs      vfs.FS
	dir     string
	storeID uint64
	lock    io.Closer // nil if read-only
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// unlock gives up the lock, if the store has one.
func (p *place) unlock() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

// Close waits for running calls, stops the background work, makes every write
// durable, and releases all files and the lock. Iterators and snapshots that
// are still open return ErrClosed from then on. A second Close returns
// ErrClosed. The error tells what could not be made durable.
func (db *DB) Close() error {
	if !db.end() {
		return ErrClosed
	}
	db.changes.broadcast()
	db.calls.Wait()
	db.background.Wait()
	db.deleter.Stop()
	err := db.closeLog()

	last := db.view.close()
	db.tree.Close()
	db.tree.Release(last.Version)
	last.releaseMemtables()
	db.memory.Close()
	db.files.Close()
	db.cache.Close()
	if cerr := db.tree.CloseManifest(db.health.failure.Load() != nil); err == nil {
		err = cerr
	}
	if cerr := db.unlock(); err == nil {
		err = cerr
	}
	return err
}

// closeLog ends the queue of writers, and seals the log.
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

// sealForClose makes everything durable and tells the manifest how long the
// log is, so that the next Open can tell whether anything is missing.
// Requires: the caller leads the queue.
func (db *DB) sealForClose() error {
	w := db.logs.Current()
	if w == nil {
		return nil
	}
	defer w.Close()
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

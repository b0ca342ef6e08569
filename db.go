package shale

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A DB is an open store. It is a Reader and a Writer; all methods may be
// called concurrently.
//
// Locks, in the order in which they are taken: leading the commit queue,
// flushMu, manifestMu, filterMu, mu. mu guards pointers and counts and is never held during
// I/O, a callback or a wait for anything but its own condition.
type DB struct {
	*lifetime
	changes   *changes
	scheduler *scheduler
	health    *health
	deleter   deleter
	logs      *logSet

	// Constant after Open.
	dir     string
	opts    Options
	fs      vfs.FS
	storeID uint64
	hasher  bloom.Hasher // of memtables and of filters to be written
	cache   *cache.Cache
	memory  *memtable.Pool
	files   *fileCache
	lock    io.Closer // nil if read-only
	made    creation  // by Open, so far

	// Read by every lookup, without a lock. view is nil once the store is
	// closed; it is written under mu.
	view           atomic.Pointer[view]
	visible        atomic.Uint64 // the last sequence number that readers may see; written by the leader
	falsePositives *cache.FalsePositives
	tableStats     sstable.Stats
	counters       counters
	probes         probeShares
	snapshots      snapshotList

	// The write path. What follows queue belongs to the goroutine that leads it.
	queue   commitQueue
	lastSeq base.Seq // the last number given out, visible or burnt
	pacer   pacer
	// flushedSeq is the highest sequence number in a table. It grows before
	// the memtable that had it leaves the view.
	flushedSeq atomic.Uint64

	flushes flushSpeed
	events  eventLog

	// manifestMu serialises version edits and guards the manifest.
	manifestMu     sync.Mutex
	manifestLog    *manifest.Log // nil if read-only
	manifestNum    base.FileNum
	manifestState  *manifest.State // what the manifest says
	manifestBroken bool            // an append failed, or beginning a new one: the next edit tries to begin one
	manifestLimit  int64           // from this size on too
	doubtful       []obsoleteFile  // tables and sidecars that a torn manifest may name; obsolete with the next one

	// flushMu makes flushes one at a time: the flusher's, and Resume's.
	flushMu sync.Mutex

	// rebuilding holds a token while RebuildFilters is under way.
	rebuilding chan struct{}

	// Background work: see background.go.
	flushWake   chan struct{}
	syncWake    chan struct{}
	syncSoon    chan struct{} // within SyncEvery, for a batch with a durability of its own
	filterWake  chan struct{}
	filterMu    sync.Mutex    // makes changes of what filters are resident one at a time; nothing is taken under it
	filterEpoch atomic.Uint64 // counts up before and after each of these: see filterSum

	// mu guards the following.
	mu          sync.Mutex
	version     *version                // the current one; written under manifestMu too
	tables      map[base.FileNum]*table // those of all versions
	memLog      base.FileNum            // the oldest log with writes of the memtable
	nextFileNum base.FileNum
	pending     map[base.FileNum]struct{} // tables and sidecars being written, not yet in a version
}

// newFileNum gives out a file number.
func (db *DB) newFileNum() base.FileNum {
	db.mu.Lock()
	defer db.mu.Unlock()
	n := db.nextFileNum
	db.nextFileNum++
	return n
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
	db.deleter.stop()
	err := db.closeLog()

	db.mu.Lock()
	last := db.view.Load()
	db.setViewLocked(nil)
	db.version = nil // who keeps a closed store keeps none of its tables in memory
	db.mu.Unlock()
	db.releaseVersion(last.version)
	last.releaseMemtables()
	db.memory.Close()
	db.files.close()
	db.cache.Close()
	if cerr := db.closeManifest(); err == nil {
		err = cerr
	}
	if db.lock != nil {
		if cerr := db.lock.Close(); err == nil {
			err = cerr
		}
	}
	return err
}

// closeLog ends the queue of writers, and seals the log.
func (db *DB) closeLog() error {
	if db.opts.ReadOnly {
		return nil
	}
	r := db.queue.newRequest()
	defer r.free()
	r.exclusive = func() error {
		db.queue.mu.Lock()
		db.queue.closed = true
		db.queue.mu.Unlock()
		if db.pacer.held {
			db.endHold()
		}
		if p := db.logs.takePrepared(); p != nil {
			db.logs.discard(p)
		}
		return db.sealForClose()
	}
	return db.commit(context.Background(), r)
}

// sealForClose makes everything durable and tells the manifest how long the
// log is, so that the next Open can tell whether anything is missing.
// Requires: the caller leads the queue.
func (db *DB) sealForClose() error {
	w := db.logs.current.Load()
	if w == nil {
		return nil
	}
	defer w.Close()
	if db.logBroken() {
		return db.Err() // acknowledged writes may not be durable
	}
	sealed, err := db.logs.seal(db.lastSeq)
	if err != nil {
		return err
	}
	if err := db.appendEdit(&manifest.Edit{SealedLog: sealed}); err != nil {
		return err
	}
	_ = w.Trim() // only space: what was reserved for writes that did not come
	db.logs.dropRecyclable()
	return nil
}

// closeManifest marks the manifest as whole.
func (db *DB) closeManifest() error {
	if db.manifestLog == nil {
		return nil
	}
	var err error
	if db.health.failure.Load() == nil && !db.manifestBroken {
		err = db.manifestLog.Finish()
	}
	if cerr := db.manifestLog.Close(); err == nil {
		err = cerr
	}
	return err
}

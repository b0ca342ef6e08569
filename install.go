package shale

import (
	"context"
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
)

// This file has what follows a change of the tables, and the removal of files that nothing
// needs.

// installed follows each change of the tables, which takes these steps. Flushes, compactions,
// ingestions and rebuilt filters make one each.
//
//  1. Tree.Begin: one change is made at a time.
//  2. Change.Log makes the edit durable in the manifest. The tables that it adds are durable
//     before. If that fails, the view stays as it is, but the manifest may have the edit: the
//     caller closes the tables and leaves their files to the tree (sink.discard).
//  3. memqueue.Queue.Begin and End replace the view.
//  4. installed ends the change, gives up the view before, and wakes those that wait for a change
//     of the tables. Change.End alone gives up what has failed before that.
//
// Requires: the caller holds no lock of the tree or of the memtable queue.
func (db *DB) installed(e *tree.Change, old *memqueue.View) {
	e.End()
	db.mems.Unpin(old)
	db.scheduler.Level0Changed(e.Old.Meta, e.Next.Meta)
	db.changes.Broadcast()
	db.filters.FitSoon(e.Next)
}

// dropFile removes a file that nothing needs any more, and what the store remembers of it. The
// deleter calls it, on its own goroutine while the store is open. A lookup with an older view may
// still come to the table: it gets filecache.ErrGone and takes the next view. If the removal
// fails, the next Open removes the file. A store that is read-only or closed keeps the file: it
// only is not needed by this handle.
func (db *DB) dropFile(f tree.Obsolete) {
	if db.tree.Retire(f) { // a version, whose files come next if nothing else needs them
		return
	}
	closed := db.mems.View() == nil
	if f.Table != nil {
		f.Table.Close()
	}
	if f.Table != nil && !closed { // Close gives up all tables at once, and the caches as a whole
		db.cache.EvictFile(uint64(f.Table.Meta.Num))
		db.falsePositives.Forget(uint64(f.Table.Meta.Num))
		db.scheduler.TakeBack(f.Table.Meta.Num)
	}
	f.Sidecar.Close()
	if db.opts.ReadOnly || closed {
		return
	}
	if err := db.fs.Remove(db.path(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove " + f.Name, Err: err})
	}
}

// dropFileAnyhow is dropFile, also if the file system panics.
func (db *DB) dropFileAnyhow(f tree.Obsolete) {
	if err := base.Survive(func() error { db.dropFile(f); return nil }); err != nil {
		db.backgroundError("remove "+f.Name, err)
	}
}

// awaitDeletions waits until the files that nothing needs any more are removed, or until ctx is
// done or the store is closing. Requires: the caller holds neither changes.mu nor a later lock.
func (db *DB) awaitDeletions(ctx context.Context) {
	db.deleter.Run()
	db.changes.Await(ctx, func() bool { return db.deleter.Idle() || db.life.Closing() || ctx.Err() != nil })
}

// removeFiles has the deleter remove files that nothing needs any more, and does not wait for it.
func (db *DB) removeFiles(names ...string) {
	db.obsolete(names...)
	db.deleter.Run()
}

// obsolete is removeFiles for a caller that holds locks. It runs the deleter afterwards.
func (db *DB) obsolete(names ...string) {
	for _, name := range names {
		db.deleter.Add(tree.Obsolete{Name: name})
	}
}

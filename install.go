package shale

import (
	"context"
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/scheduler"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
)

// install makes an edit of the tables durable and then visible. Flushes and compactions call it
// on their own goroutines; Ingest and RebuildFilters use the functions below.
//
//  1. Tree.Install applies the edit to the current version, appends it to the manifest and syncs
//     that. It holds Tree.editing, so one edit is made at a time.
//  2. Publish (newChange) replaces the view, under Tree.mu and readState.mu. change, if not nil,
//     changes the new view further, so readers see both changes in one step.
//  3. Installed wakes those that wait for a change of the tables.
//  4. The tree releases the old version. Files that no version has go to the deleter, which calls
//     dropFile.
//
// opened holds the tables that the edit adds; they must be durable. If install fails, the view
// is as before and change was not called, but the manifest may have the edit: the caller closes
// the tables and leaves their files to the tree (sink.discard). Requires: the caller holds
// neither Tree.editing nor a lock that comes after it.
func (db *DB) install(edit *manifest.Edit, opened []*tree.Table, change func(*view)) error {
	return db.installWrites(edit, opened, 0, change)
}

// installWrites is install for tables whose entries nobody has seen yet. Together with the view
// it publishes seq, their sequence number. Requires: the caller leads the commit queue, if seq is
// not 0.
func (db *DB) installWrites(edit *manifest.Edit, opened []*tree.Table, seq base.Seq, changeView func(*view)) error {
	return db.tree.Install(func(current *manifest.Version) *tree.Change {
		edit.Rebase(current) // filters may have come beside tables that it moves
		return db.newChange(edit, opened, nil, seq, changeView)
	})
}

// newChange returns the change that an edit makes to the tree and to what readers see. opened and
// sidecars are the tables and the filters beside tables that the edit adds. seq is the sequence
// number to be published with them; 0: there is none.
func (db *DB) newChange(edit *manifest.Edit, opened []*tree.Table, sidecars []*tree.Sidecar, seq base.Seq, changeView func(*view)) *tree.Change {
	var replaced *view
	return &tree.Change{
		Edit: edit, Opened: opened, Sidecars: sidecars, Epoch: db.filters.Epoch,
		Publish: func(next *tree.Version) {
			replaced = db.view.replace(next, changeView, func(v *view) { db.publish(v, seq) })
		},
		Installed: func(old, next *tree.Version) {
			db.releaseAll(replaced)
			// What reads have earned was for compacting another level 0.
			if !scheduler.SameLevel0(old.Meta, next.Meta) {
				db.scheduler.ForgetReads()
			}
			db.changes.broadcast()
			db.filters.FitSoon(next)
		},
	}
}

// publish makes v the current view, and then seq visible, if it is not 0. No snapshot is taken
// between the two steps: see commit.Snapshots.Publish. Requires: readState.mu is held.
func (db *DB) publish(v *view, seq base.Seq) {
	if seq == 0 {
		db.view.Store(v)
		return
	}
	db.snapshots.Publish(func() {
		// The number comes after the view. PutIfAbsent loads the number and then the view: if it
		// got the new number with the old view, it would overwrite a key of the new tables.
		db.view.Store(v)
		db.commits.Publish(seq)
	})
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
	closed := db.view.Load() == nil
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

// awaitDeletions waits until the files that nothing needs any more are removed, or until ctx is
// done or the store is closing. Requires: the caller holds neither changes.mu nor a later lock.
func (db *DB) awaitDeletions(ctx context.Context) {
	db.deleter.Run()
	db.changes.await(ctx, func() bool { return db.deleter.Idle() || db.closing() || ctx.Err() != nil })
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

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

// install makes an edit of the tables durable and then visible. opened holds the tables
// that the edit adds. change, if not nil, changes the view further, in the same step that
// readers see.
func (db *DB) install(edit *manifest.Edit, opened []*tree.Table, change func(*view)) error {
	return db.installWrites(edit, opened, 0, change)
}

// installWrites is install for tables whose entries nobody has seen yet. It
// publishes their sequence number together with the view: see
// commit.Snapshots.Publish.
func (db *DB) installWrites(edit *manifest.Edit, opened []*tree.Table, seq base.Seq, changeView func(*view)) error {
	return db.tree.Install(func(current *manifest.Version) *tree.Change {
		edit.Rebase(current) // filters may have come beside tables that it moves
		return db.newChange(edit, opened, nil, seq, changeView)
	})
}

// newChange is for installWrites, and makes the sidecars visible that the edit adds. seq is
// 0 if nothing is to be published.
func (db *DB) newChange(edit *manifest.Edit, opened []*tree.Table, sidecars []*tree.Sidecar, seq base.Seq, changeView func(*view)) *tree.Change {
	return &tree.Change{
		Edit: edit, Opened: opened, Sidecars: sidecars, Epoch: db.filters.Epoch(),
		Publish: func(next *tree.Version) {
			db.view.replace(next, changeView, func(v *view) { db.publish(v, seq) })
		},
		Installed: func(old, next *tree.Version) {
			if !scheduler.SameLevel0(old.Meta, next.Meta) {
				db.scheduler.Seeks.Earned.Store(0)
			}
			db.changes.broadcast()
			db.filters.FitSoon(next)
		},
	}
}

// publish makes v the current view, and seq visible, if it is not 0.
func (db *DB) publish(v *view, seq base.Seq) {
	if seq == 0 {
		db.view.Store(v)
		return
	}
	db.snapshots.Publish(func() {
		db.view.Store(v)
		db.commits.Publish(seq) // after the view: see view
	})
}

// dropFile removes a file that nothing needs any more, and what the store knows of it. A
// store that is read-only or closed removes nothing: there its files are only not
// needed by this handle.
func (db *DB) dropFile(f tree.Obsolete) {
	if f.Table != nil {
		f.Table.Retire()
		db.cache.EvictFile(uint64(f.Table.Meta.Num))
		db.falsePositives.Forget(uint64(f.Table.Meta.Num))
		db.scheduler.TakeBack(f.Table.Meta.Num)
	}
	f.Sidecar.Close()
	if db.opts.ReadOnly || db.view.Load() == nil {
		return
	}
	if err := db.fs.Remove(db.path(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove " + f.Name, Err: err})
	}
}

// awaitDeletions waits until what nothing needs any more is removed, or until ctx is
// done or the store is closing.
func (db *DB) awaitDeletions(ctx context.Context) {
	db.deleter.Run()
	db.changes.await(ctx, func() bool { return db.deleter.Idle() || db.closing() || ctx.Err() != nil })
}

// removeFiles has files removed that nothing needs any more.
func (db *DB) removeFiles(names ...string) {
	for _, name := range names {
		db.deleter.Add(tree.Obsolete{Name: name})
	}
	db.deleter.Run()
}

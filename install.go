package shale

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// install makes an edit of the tables durable and then visible. opened holds the tables
// that the edit adds. change, if not nil, changes the view further, in the same step that
// readers see.
func (db *DB) install(edit *manifest.Edit, opened []*table, change func(*view)) error {
	return db.installWrites(edit, opened, 0, change)
}

// installWrites is install for tables whose entries nobody has seen yet. It
// publishes their sequence number together with the view: see
// snapshotList.publish.
func (db *DB) installWrites(edit *manifest.Edit, opened []*table, seq base.Seq, change func(*view)) error {
	db.tree.editing.Lock()
	defer db.tree.editing.Unlock()
	edit.Rebase(db.tree.version.meta) // filters may have come beside tables that it moves
	return db.installLocked(edit, opened, nil, seq, change)
}

// installLocked is installWrites, and makes the sidecars visible that the edit
// adds. seq is 0 if nothing is to be published. Requires: db.tree.editing is held.
func (db *DB) installLocked(edit *manifest.Edit, opened []*table, sidecars []*sidecar, seq base.Seq, change func(*view)) error {
	var next *version
	old, err := db.tree.install(install{edit: edit, opened: opened, sidecars: sidecars, epoch: db.filters.epoch.Load(), publish: func(v *version) {
		next = v
		db.view.replace(v, change, func(v *view) { db.publish(v, seq) })
	}})
	if err != nil {
		return err
	}
	if !sameLevel0(old.meta, next.meta) {
		db.scheduler.seeks.earned.Store(0)
	}
	db.changes.broadcast()
	db.filters.fitSoon(next)
	db.tree.release(old)
	return nil
}

// publish makes v the current view, and seq visible, if it is not 0.
func (db *DB) publish(v *view, seq base.Seq) {
	if seq == 0 {
		db.view.Store(v)
		return
	}
	db.snapshots.publish(func() {
		db.view.Store(v)
		db.commits.visible.Store(uint64(seq)) // after the view: see view
	})
}

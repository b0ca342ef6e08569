package shale

import (
	"context"
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/tree"
)

// dropFile removes a file that nothing needs any more, and what the store knows of it. A
// store that is read-only or closed removes nothing: there its files are only not
// needed by this handle.
func (db *DB) dropFile(f tree.Obsolete) {
	if f.Table != nil {
		f.Table.Retire()
		db.cache.EvictFile(uint64(f.Table.Meta.Num))
		db.falsePositives.Forget(uint64(f.Table.Meta.Num))
		db.scheduler.takeBack(f.Table.Meta.Num)
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

package shale

import (
	"context"
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
)

// dropFile removes a file that nothing needs any more, and what the store knows of it. A
// store that is read-only or closed removes nothing: there its files are only not
// needed by this handle.
func (db *DB) dropFile(f obsoleteFile) {
	if f.table != nil {
		f.table.retire()
		db.cache.EvictFile(uint64(f.table.meta.Num))
		db.falsePositives.Forget(uint64(f.table.meta.Num))
		db.scheduler.takeBack(f.table.meta.Num)
	}
	f.side.close()
	if db.opts.ReadOnly || db.view.Load() == nil {
		return
	}
	if err := db.fs.Remove(db.path(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove " + f.name, Err: err})
	}
}

// awaitDeletions waits until what nothing needs any more is removed, or until ctx is
// done or the store is closing.
func (db *DB) awaitDeletions(ctx context.Context) {
	base.Wake(db.deleter.wake)
	db.changes.await(ctx, func() bool { return db.deleter.idle() || db.closing() || ctx.Err() != nil })
}

// removeFiles has files removed that nothing needs any more.
func (db *DB) removeFiles(names ...string) {
	for _, name := range names {
		db.deleter.add(obsoleteFile{name: name})
	}
	db.deleter.run()
}

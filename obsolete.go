package shale

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// maxRecyclable is how many obsolete logs are kept to be used again. Their
// blocks are written already, which makes a sync of new contents cheap.
const maxRecyclable = 2

// An obsoleteFile is one that nothing needs any more.
type obsoleteFile struct {
	name  string
	table *table       // nil for other files
	side  *sidecar     // nil for other files
	log   base.FileNum // 0 for other files
}

// unrefTableLocked lets a version go of t. Requires: db.mu is held.
func (db *DB) unrefTableLocked(t *table) {
	t.refs--
	if t.refs == 0 {
		delete(db.tables, t.meta.Num)
		db.obsolete = append(db.obsolete, obsoleteFile{name: base.TableName(t.meta.Num), table: t})
	}
}

// unrefSidecarLocked lets a version go of s. Requires: db.mu is held.
func (db *DB) unrefSidecarLocked(s *sidecar) {
	s.refs--
	if s.refs == 0 {
		db.obsolete = append(db.obsolete, obsoleteFile{name: base.FilterName(s.meta.Num), side: s})
	}
}

// dropLogsLocked lets the logs below min go: into the recyclable ones, or
// away. Requires: db.mu is held; the manifest's MinLog is min, durably.
func (db *DB) dropLogsLocked(min base.FileNum) {
	kept := db.logs[:0]
	for _, l := range db.logs {
		switch {
		case l.num >= min:
			kept = append(kept, l)
		case l.sealed && !l.linked && db.linking[l.num] == 0 && len(db.recyclable) < maxRecyclable:
			db.recyclable = append(db.recyclable, l.num)
		default:
			db.obsolete = append(db.obsolete, obsoleteFile{name: base.LogName(l.num), log: l.num})
		}
	}
	db.logs = kept
}

// dropRecyclable removes the logs that were kept to be used again.
func (db *DB) dropRecyclable() {
	db.mu.Lock()
	for _, num := range db.recyclable {
		db.obsolete = append(db.obsolete, obsoleteFile{name: base.LogName(num), log: num})
	}
	db.recyclable = nil
	db.mu.Unlock()
	db.deleteObsolete()
}

// deleteLoop is the goroutine that removes files, so that no reader has to that is the
// last to need one. Close takes over from it.
func (db *DB) deleteLoop() {
	for {
		select {
		case <-db.ctx.Done():
			return
		case <-db.deleteWake:
			db.removeObsolete()
		}
	}
}

// deleteObsolete has removed what nothing needs any more, by deleteLoop while the store
// is open. In a store that is closed or read-only there is nothing to remove, and the
// caller closes the files. Requires: db.mu is not held.
func (db *DB) deleteObsolete() {
	db.mu.Lock()
	loop := db.deleterRuns
	db.mu.Unlock()
	if loop {
		wake(db.deleteWake)
	} else {
		db.removeObsolete()
	}
}

// stopDeleter ends the time of deleteLoop, whose goroutine has returned, and does what
// it has left.
func (db *DB) stopDeleter() {
	db.mu.Lock()
	db.deleterRuns = false
	db.mu.Unlock()
	db.removeObsolete()
}

// awaitDeletions waits until what nothing needs any more is removed, or until ctx is
// done or the store is closing.
func (db *DB) awaitDeletions(ctx context.Context) {
	wake(db.deleteWake)
	db.changes.await(ctx, func() bool {
		db.mu.Lock()
		defer db.mu.Unlock()
		return !db.deleterRuns || db.closing() || ctx.Err() != nil || db.removing == 0 && !db.anyObsoleteLocked()
	})
}

// removeObsolete removes what nothing needs any more. A file that can't be removed is
// left to the next Open, and so is one that is back after a crash: therefore the
// directory is not synced. Requires: db.mu is not held.
func (db *DB) removeObsolete() {
	db.mu.Lock()
	files := db.takeObsoleteLocked()
	keep := db.opts.ReadOnly || db.view.Load() == nil
	db.removing++
	db.mu.Unlock()
	for _, f := range files {
		if f.table != nil {
			f.table.file.close()
			f.table.reader.Retire()
			db.cache.EvictFile(uint64(f.table.meta.Num))
			db.falsePositives.Forget(uint64(f.table.meta.Num))
			db.scheduler.takeBack(f.table.meta.Num)
		}
		f.side.close()
		if keep {
			continue // read-only, or closing: the current version's files are not obsolete at all
		}
		if err := db.fs.Remove(db.path(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.events.emit(Event{Kind: EventBackgroundError, Reason: "remove " + f.name, Err: err})
		}
	}
	db.mu.Lock()
	db.removing--
	db.mu.Unlock()
	db.changes.broadcast()
}

// anyObsoleteLocked says whether there is something that takeObsoleteLocked would take.
// Requires: db.mu is held.
func (db *DB) anyObsoleteLocked() bool {
	return slices.ContainsFunc(db.obsolete, func(f obsoleteFile) bool { return f.log == 0 || db.linking[f.log] == 0 })
}

// takeObsoleteLocked empties the list, but for logs that a checkpoint is about
// to link, or Verify reads. Requires: db.mu is held.
func (db *DB) takeObsoleteLocked() []obsoleteFile {
	var take, keep []obsoleteFile
	for _, f := range db.obsolete {
		if f.log != 0 && db.linking[f.log] > 0 {
			keep = append(keep, f)
		} else {
			take = append(take, f)
		}
	}
	db.obsolete = keep
	return take
}

// unlinkLogs says that the logs are not needed by their names any more. The
// files that a checkpoint linked stay shared with it, and are not overwritten.
func (db *DB) unlinkLogs(nums []base.FileNum) {
	db.mu.Lock()
	for _, num := range nums {
		db.linking[num]--
		if db.linking[num] == 0 {
			delete(db.linking, num)
		}
	}
	db.mu.Unlock()
	db.deleteObsolete()
}

package shale

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// install makes an edit of the tables durable and then visible: the order of
// invariant 6. opened holds the tables that the edit adds. change, if not nil,
// changes the view further, in the same step that readers see.
func (db *DB) install(edit *manifest.Edit, opened []*table, change func(*view)) error {
	return db.installWrites(edit, opened, 0, change)
}

// installWrites is install for tables whose entries nobody has seen yet. It
// publishes their sequence number together with the view: see
// snapshotList.publish.
func (db *DB) installWrites(edit *manifest.Edit, opened []*table, seq base.Seq, change func(*view)) error {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	edit.Rebase(db.version.meta) // filters may have come beside tables that it moves
	return db.installLocked(edit, opened, nil, seq, change)
}

// installLocked is installWrites, and makes the sidecars visible that the edit
// adds. seq is 0 if nothing is to be published. Requires: db.manifestMu is held.
func (db *DB) installLocked(edit *manifest.Edit, opened []*table, beside []*sidecar, seq base.Seq, change func(*view)) error {
	old := db.version // written under manifestMu too
	meta, err := old.meta.Apply(edit)
	if err != nil {
		return fmt.Errorf("shale: apply version edit: %w", err)
	}
	if err := db.appendLocked(edit, meta, true); err != nil {
		db.keepDoubtful(opened, beside)
		return err
	}
	db.mu.Lock()
	come := db.comeLocked(edit, opened)
	db.mu.Unlock()
	next := db.nextVersion(old, meta, come, beside)
	db.mu.Lock()
	next.refLocked()
	for _, t := range opened {
		db.tables[t.meta.Num] = t
		delete(db.pending, t.meta.Num)
	}
	for _, s := range beside {
		delete(db.pending, s.meta.Num)
	}
	v := &view{version: next}
	if cur := db.view.Load(); cur != nil {
		v.mem, v.imms = cur.mem, cur.imms
	}
	if change != nil {
		change(v)
	}
	db.version = next
	if seq == 0 {
		db.setViewLocked(v)
	} else {
		db.snapshots.publish(func() {
			db.setViewLocked(v)
			db.visible.Store(uint64(seq)) // after the view: see view
		})
	}
	if !sameLevel0(old.meta, meta) {
		db.scheduler.seeks.earned.Store(0)
	}
	db.mu.Unlock()
	db.changes.broadcast()
	db.fitFiltersSoon(next)
	db.releaseVersion(old)
	return nil
}

// comeLocked returns the tables that are new in their runs: those opened, and
// those that the edit moves. Requires: db.mu is held.
func (db *DB) comeLocked(edit *manifest.Edit, opened []*table) map[base.FileNum]*table {
	come := make(map[base.FileNum]*table, len(edit.Added))
	for _, a := range edit.Added {
		if t := db.tables[a.Table.Num]; t != nil {
			come[a.Table.Num] = t
		}
	}
	for _, t := range opened {
		come[t.meta.Num] = t
	}
	return come
}

// appendEdit makes an edit that does not change the tables durable.
func (db *DB) appendEdit(edit *manifest.Edit) error {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	return db.appendLocked(edit, db.version.meta, true)
}

// noteLog tells the manifest of a log, without waiting for the disk. Logs are
// found by their names and tell the lengths of their predecessors, so if the
// manifest can't be written now, it is enough that the next one will know.
func (db *DB) noteLog(edit *manifest.Edit) error {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	err := db.appendLocked(edit, db.version.meta, false)
	if !db.manifestBroken {
		return err
	}
	state, err := db.manifestState.Apply(edit, db.version.meta)
	if err == nil {
		db.manifestState = state
	}
	return err
}

// maxManifestSize is from which size on a manifest is replaced by a snapshot
// of the state, if that is much smaller.
const maxManifestSize = 1 << 20

// appendLocked writes an edit to the manifest. If that fails, a new manifest
// with the state after the edit takes its place: nothing is ever appended
// after what may be torn. Requires: db.manifestMu is held.
func (db *DB) appendLocked(edit *manifest.Edit, after *manifest.Version, sync bool) error {
	if db.manifestLog == nil {
		return ErrReadOnly
	}
	edit.NextFileNum = db.peekFileNum()
	state, err := db.manifestState.Apply(edit, after)
	if err != nil {
		return fmt.Errorf("shale: apply version edit: %w", err)
	}
	if db.manifestLog.Size() < db.manifestLimit && !db.manifestBroken {
		err := db.manifestLog.Append(edit, sync)
		if err == nil {
			db.manifestState = state
			return nil
		}
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "manifest", Err: err})
	}
	// Should the new one fail, CURRENT may name it all the same: nothing may
	// be appended to the old one then.
	db.manifestBroken = true
	return db.newManifestLocked(state)
}

// newManifestLocked begins a manifest with a snapshot of state. Requires:
// db.manifestMu is held.
func (db *DB) newManifestLocked(state *manifest.State) error {
	num := db.newFileNum()
	state.NextFileNum = db.peekFileNum()
	state.LastSeq = max(state.LastSeq, base.Seq(db.visible.Load()))
	log, err := manifest.Create(db.fs, db.dir, num, state)
	if err != nil {
		return fmt.Errorf("shale: begin manifest: %w", err)
	}
	old, oldNum := db.manifestLog, db.manifestNum
	db.manifestState = state
	db.manifestLog, db.manifestNum, db.manifestBroken = log, num, false
	db.manifestLimit = max(maxManifestSize, 4*log.Size())
	if old != nil {
		_ = old.Close() // superseded: whatever it holds is in the new one
		db.deleter.add(obsoleteFile{name: base.ManifestName(oldNum)})
		db.deleter.add(db.doubtful...)
		db.doubtful = nil
		db.deleter.run()
	}
	return nil
}

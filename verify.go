package shale

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// Verify reads every block of every table, and the logs, and checks checksums,
// the order of keys, the levels, the counts, and that every filter, in its table
// or beside it, knows every key of its table. It returns the first damage that it finds, or ctx's error.
// Reads and writes go on meanwhile. A table that was set aside because of damage (EventTableSetAside)
// and is whole now is compacted again.
func (db *DB) Verify(ctx context.Context) error {
	if err := db.begin(); err != nil {
		return err
	}
	defer db.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.ctx, cancel)()
	v := db.acquireView()
	if v == nil {
		return ErrClosed
	}
	defer db.tree.release(v.version)
	if err := v.meta.Check(); err != nil {
		return fmt.Errorf("shale: verify: %w", err)
	}
	for _, r := range v.runs {
		for _, t := range r.tables {
			if err := t.reader.VerifyWith(ctx, v.sidecarOf(t)); err != nil {
				if db.ctx.Err() != nil {
					return ErrClosed
				}
				db.noteCorruption(err)
				return fmt.Errorf("shale: verify: %w", err)
			}
			db.takeBack(t.meta.Num)
		}
	}
	if err := db.verifyLogs(); err != nil {
		return err
	}
	return db.verifyManifest()
}

// verifyLogs reads the live logs but for the current one, which is being
// written, to the lengths that they were sealed with.
func (db *DB) verifyLogs() error {
	if db.opts.ReadOnly {
		return nil // a writer beside us recycles them; Open has read them just now
	}
	for _, l := range db.holdLogs() {
		defer db.logs.Release([]base.FileNum{l.Num})
		_, err := wal.Read(db.fs, db.dir, l.Num, db.storeID, wal.ReadOptions{Known: l.Length}, func(payload []byte) error {
			if _, _, err := decodeBatch(payload); err != nil {
				return batchError(l.Num, err)
			}
			return nil
		})
		if err != nil {
			db.noteCorruption(err)
			return fmt.Errorf("shale: verify: %w", err)
		}
	}
	return nil
}

// holdLogs returns the sealed live logs, for logSet.release.
func (db *DB) holdLogs() []manifest.LogInfo {
	db.tree.editing.Lock()
	defer db.tree.editing.Unlock()
	return db.logs.Hold(db.tree.journal.state.Logs)
}

// verifyManifest reads the manifest back.
func (db *DB) verifyManifest() error {
	db.tree.editing.Lock()
	defer db.tree.editing.Unlock()
	if _, err := manifest.Load(db.fs, db.dir); err != nil && !db.opts.ReadOnly {
		db.noteCorruption(err)
		return fmt.Errorf("shale: verify: %w", err)
	}
	return nil
}

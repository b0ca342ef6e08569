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
	defer db.tree.Release(v.Version)
	if err := v.Meta.Check(); err != nil {
		return fmt.Errorf("shale: verify: %w", err)
	}
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			if err := t.Reader.VerifyWith(ctx, v.SidecarOf(t)); err != nil {
				if db.ctx.Err() != nil {
					return ErrClosed
				}
				db.noteCorruption(err)
				return fmt.Errorf("shale: verify: %w", err)
			}
			db.takeBack(t.Meta.Num)
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

// holdLogs returns the sealed live logs, for logset.Set.Release.
func (db *DB) holdLogs() (held []manifest.LogInfo) {
	db.tree.WithState(func(state *manifest.State) { held = db.logs.Hold(state.Logs) })
	return held
}

// verifyManifest reads the manifest back.
func (db *DB) verifyManifest() (err error) {
	db.tree.WithState(func(*manifest.State) { _, err = manifest.Load(db.fs, db.dir) })
	if err != nil && !db.opts.ReadOnly {
		db.noteCorruption(err)
		return fmt.Errorf("shale: verify: %w", err)
	}
	return nil
}

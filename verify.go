package shale

import (
	"context"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// This file has Verify, which reads all of a store.

// Verify goes through the tables of one version, then the sealed logs, then the manifest,
// on its caller's goroutine. It holds what it reads: a reference on the version keeps the
// files of its tables, and logset.Set.Hold keeps logs from being removed or overwritten. So
// it needs no lock while it reads tables and logs. It holds Tree.editing only while it
// lists the logs and while it reads the manifest, so that no edit is half written then. The
// first damage ends the call.

// Verify reads every block of every table, and the logs. It checks checksums, the order of keys, the levels and the
// counts, and what the manifest says of each table. It also checks that every filter, in its table or next to it, knows
// every key of its table. It returns the first damage that it finds, or ctx's error. Reads and writes go on meanwhile.
// A table that was set aside because of damage ([EventTableSetAside]) and is whole now is compacted again.
func (db *DB) Verify(ctx context.Context) error {
	if err := db.life.Begin(); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Close waits for this call, so Close must also end it.
	defer context.AfterFunc(db.life.Context, cancel)()
	if err := base.ContextError(ctx); err != nil {
		return db.verifyError(err)
	}
	v := db.mems.Acquire()
	if v == nil {
		return ErrClosed
	}
	defer db.tree.Release(v.Version)
	if err := v.Meta.Check(); err != nil {
		return fmt.Errorf("shale: verify: %w", err)
	}
	var audit manifest.Audit
	for _, r := range v.Runs {
		for _, t := range r.Tables {
			audit.Begin(t.Meta, v.Meta.Spans)
			err := t.Reader.VerifyWith(ctx, db.tree.SidecarOf(v.Version, t), audit.Entry)
			if err == nil {
				err = audit.End()
			}
			if err != nil {
				db.noteCorruption(err)
				return db.verifyError(err)
			}
			db.takeBack(t.Meta.Num)
		}
	}
	if err := db.verifyLogs(); err != nil {
		return err
	}
	return db.verifyManifest()
}

// verifyError gives an error its context. If Close has ended the call, that is ErrClosed.
func (db *DB) verifyError(err error) error {
	if db.life.Closing() {
		return ErrClosed
	}
	return fmt.Errorf("shale: verify: %w", err)
}

// verifyLogs reads the sealed live logs, each to the length that it was sealed with, and
// decodes their batches. The current log is still being written, so it is left out.
func (db *DB) verifyLogs() error {
	if db.opts.ReadOnly {
		// The logs belong to a writer, which may reuse their files at any time. Open has
		// read them.
		return nil
	}
	held := db.holdLogs()
	defer db.releaseLogs(held)
	for _, l := range held {
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

// holdLogs returns the sealed live logs, and holds them for logset.Set.Release. It asks
// under Tree.editing, so that the lengths in the manifest go with the logs that are live.
func (db *DB) holdLogs() (held []manifest.LogInfo) {
	db.tree.WithState(func(state *manifest.State) { held = db.logs.Hold(state.Logs) })
	return held
}

// releaseLogs gives logs back that holdLogs has held.
func (db *DB) releaseLogs(held []manifest.LogInfo) {
	nums := make([]base.FileNum, len(held))
	for i, l := range held {
		nums[i] = l.Num
	}
	db.logs.Release(nums)
}

// verifyManifest reads CURRENT and the manifest again, while no edit is appended. A
// read-only handle ignores the error: a writer may change the files meanwhile.
func (db *DB) verifyManifest() (err error) {
	db.tree.WithState(func(*manifest.State) { _, err = manifest.Load(db.fs, db.dir) })
	if err != nil && !db.opts.ReadOnly {
		db.noteCorruption(err)
		return fmt.Errorf("shale: verify: %w", err)
	}
	return nil
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// This file has what a program needs that copies the logs of a store while it is written, as
// package remote does.

// A LogPosition says how far the log of a store reaches.
type LogPosition struct {
	Log     uint64 // the file number of the current log
	Written int64  // the file offset where its last record ends
	Synced  int64  // the file offset up to which it is durable, at most Written
	LastSeq uint64 // see DB.LogPosition and Options.CommitGate
}

// LogPosition returns how far the log reaches. All writes with sequence numbers up to LastSeq are
// in the log up to Written, in earlier logs, or in tables; newer ones may be there too. Whoever
// has seen a write finds its number not above LastSeq. After Close it is the last position, and of
// a store opened with ReadOnly it is zero. It waits for nothing.
func (db *DB) LogPosition() LogPosition {
	last := db.commits.Visible() // before the log is looked at, which may grow meanwhile
	w := db.logs.Current()
	if w == nil {
		return LogPosition{}
	}
	return positionIn(w, last)
}

// positionIn returns the position in w. Synced is loaded first, so it is not above Written.
func positionIn(w *wal.Writer, last base.Seq) LogPosition {
	synced := w.Synced()
	return LogPosition{Log: uint64(w.Num()), Written: w.Len(), Synced: synced, LastSeq: uint64(last)}
}

// HoldLogs keeps the logs with number from and higher ones: they are neither removed nor used
// again, although all of their writes are in tables. So a program that copies logs gets them
// whole. Logs with lower numbers go as ever, and those that were kept before and are not any more
// go at once; 0 keeps none. Options.HoldLogs says the same from Open on.
//
// A kept log takes its room on disk, also if the disk is full. After the next log has begun, the
// header of that one states the length of the kept log (wal.ReadHeader).
func (db *DB) HoldLogs(from uint64) { db.logs.HoldFrom(base.FileNum(from)) }

// HeldLogBytes returns how many bytes of logs are kept although all of their writes are in tables: what HoldLogs(0) frees.
func (db *DB) HeldLogBytes() int64 { return db.logs.OrphanBytes() }

// RaiseFileNum begins a new log, and gives it and all files that are begun later numbers from first up, as
// Options.FirstFileNum does from Open on. Files that are being written meanwhile keep their lower numbers. Writers wait
// for a moment.
func (db *DB) RaiseFileNum(ctx context.Context, first uint64) error {
	if first < 1 || first > maxFirstFileNum {
		return fmt.Errorf("shale: raise file numbers: %d is not from 1 to 2^60 - 2^36", first)
	}
	if err := db.beginUsable(ctx); err != nil {
		return err
	}
	defer db.calls.Done()
	err := db.commits.Alone(ctx, func() error {
		if err := db.awaitRoom(ctx); err != nil {
			return err
		}
		db.tree.SkipFileNums(base.FileNum(first - 1))
		db.logs.DiscardPrepared() // it has a lower number
		return db.rotate()
	})
	if err != nil {
		return callError("raise file numbers", err)
	}
	return nil
}

// commitGate returns Options.CommitGate as the commit queue and Ingest ask it, or nil.
func (db *DB) commitGate() func(last base.Seq) error {
	gate := db.opts.CommitGate
	if gate == nil {
		return nil
	}
	return func(last base.Seq) error {
		if err := gate(positionIn(db.logs.Current(), last)); err != nil {
			return fmt.Errorf("shale: commit gate: %w", err)
		}
		return nil
	}
}

// A Hold keeps the files of one state of a store, while a program copies them. Its methods may be
// called by one goroutine at a time.
type Hold struct {
	db    *DB
	view  *memqueue.View  // nil after Release
	state *manifest.State // the Hold's own
	logs  []base.FileNum  // the sealed ones of the state
}

// Hold holds the tables of the store, their sidecars and its sealed logs: none of their files is
// removed or overwritten before Release. Writers and readers do not wait. Unlike Checkpoint it
// does not begin a log, so the newest writes may be in a log that is still written: State has that
// log, which is not sealed, and HoldLogs keeps it.
//
// A Hold costs disk space as long as it lives. Close does not wait for it, and after Close the
// files stay until the store is opened again.
func (db *DB) Hold() (*Hold, error) {
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := db.begin(); err != nil {
		return nil, err
	}
	defer db.calls.Done()
	h := &Hold{db: db}
	db.tree.WithState(func(now *manifest.State) {
		h.keep(now)
		for _, l := range db.logs.Hold(now.Logs) {
			h.logs = append(h.logs, l.Num)
		}
	})
	return h, nil
}

// State returns what the manifest says of the store: its tables and sidecars (Version), its logs
// from MinLog on, with the length and the last sequence number of those that are sealed, and
// numbers. NextFileNum is above the number of every file in it. The caller must not change what
// it points to.
func (h *Hold) State() *manifest.State { return h.state }

// Release lets the files go. Further calls do nothing.
func (h *Hold) Release() {
	if h.view == nil {
		return
	}
	h.db.tree.Release(h.view.Version)
	h.view = nil
	h.db.logs.Release(h.logs)
}

// keep takes the view and a copy of now, the tree's state, which belong together. Requires:
// Tree.editing is held, so that no version comes or goes between these lines.
func (h *Hold) keep(now *manifest.State) {
	h.view = h.db.mems.Acquire()
	state := *now
	state.Logs = slices.Clone(now.Logs)
	// Every file number in the state is below NextFileNum.
	state.NextFileNum = h.db.tree.PeekFileNum()
	h.state = &state
}

// Fence makes the store refuse writes for good: another writer has taken over what this one was
// writing for. Every write returns cause, wrapped in ErrReadOnly, and so does Resume. Only another
// Open ends that. Reads go on. A write whose group is being committed may still be acknowledged;
// Options.CommitGate can prevent that. An earlier fence stays. Of a store that is closed, or was
// opened with ReadOnly, nothing changes.
func (db *DB) Fence(cause error) {
	if cause == nil {
		cause = errors.New("shale: fenced")
	}
	if !db.opts.ReadOnly && !db.closing() {
		db.health.Fence(cause)
	}
}

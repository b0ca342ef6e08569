package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// This file has what a program needs that copies the logs of a store while it is written, as
// package remote does.

// ShippingOptions are the options of programs that copy the logs of a store elsewhere.
type ShippingOptions struct {
	// Gate, if not nil, is asked before a group of writes becomes visible and is
	// acknowledged: a program that copies the log elsewhere can wait there until it has the
	// group. The position reaches to the end of the group, and LastSeq is the number of its
	// last write. With SyncEach the log is durable up to there. Ingest asks when its keys are
	// durable and visible already, but not acknowledged: after an error they stay, and Ingest
	// returns ErrIngested.
	//
	// One call at a time is under way. Other writers wait meanwhile, and so does Close. The
	// gate may call Position, HoldLogs, Hold, Sync and Fence, and read; it must not write. An
	// error makes the store read-only until Resume or another Open, whatever it wraps: an
	// ENOSPC of the gate's is not one of the store's disk, which would pass. The writers of the
	// group get the error. The group is not visible then; but it is in the log, and so it may
	// be there when the store is opened again, and a handle that follows by Advance may show
	// it. If Resume succeeds, it is gone.
	Gate func(LogPosition) error

	// HoldLogs is what Shipping.HoldLogs gets when the store is opened, before any log is removed.
	// 0: no log is kept.
	HoldLogs uint64

	// FirstFileNum is the least number that new files get, at most 2^60 - 2^36. It is for stores whose
	// files are copied to one place by several writers, one after the other: if each has a range
	// of its own, no two files have the same number. 0: the number after the last file's.
	FirstFileNum uint64

	// FiltersInFiles says that tables which are not on this machine have their filters on it (vfs.RemoteFile). One that is
	// not in memory is asked there. Options.FilterMemory then limits memory only, and not how large filters are written.
	// Predicted rates count such a filter as none, since they are computed from filters in memory.
	FiltersInFiles bool

	// Clock, if not nil, has the store's time instead of the system's clock. It is for stores that several programs keep alike
	// by the same writes, as package cluster does: the time is one that the writes state. It must not return a later time
	// before a write that states it is in the store. What expired up to then is dropped once that write is durable.
	Clock func() time.Time
}

// A Shipping is for programs that copy the logs of a store elsewhere while it is written. All
// methods may be called concurrently.
type Shipping struct{ db *DB }

// ShippingOf returns the Shipping of a store.
func ShippingOf(db *DB) Shipping { return Shipping{db} }

// A LogPosition says how far the log of a store reaches.
type LogPosition struct {
	Log     uint64 // the file number of the current log
	Written int64  // the file offset where its last record ends
	Synced  int64  // the file offset up to which it is durable, at most Written
	LastSeq uint64 // writes up to this sequence number are in the log up to Written, in earlier logs, or in tables
}

// Position returns how far the log reaches. All writes with sequence numbers up to LastSeq are
// in the log up to Written, in earlier logs, or in tables; newer ones may be there too. Whoever
// has seen a write finds its number not above LastSeq. After Close it is the last position, and of
// a store opened with ReadOnly it is zero. It waits for nothing.
func (s Shipping) Position() LogPosition {
	db := s.db
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
// go at once; 0 keeps none. [ShippingOptions.HoldLogs] says the same from Open on.
//
// A kept log takes its room on disk, also if the disk is full. After the next log has begun, the
// header of that one states the length of the kept log (wal.ReadHeader).
func (s Shipping) HoldLogs(from uint64) { s.db.logs.HoldFrom(base.FileNum(from)) }

// HeldLogBytes returns how many bytes of logs are kept although all of their writes are in tables: what HoldLogs(0)
// frees. What [Options.KeepLog] spares is not among them.
func (s Shipping) HeldLogBytes() int64 {
	held, _ := s.db.logs.OrphanBytes()
	return held
}

// RaiseFileNum begins a new log, and gives it and all files that are begun later numbers from first up, as
// [ShippingOptions.FirstFileNum] does from Open on. Files that are being written meanwhile keep their lower numbers.
// Writers wait for a moment.
func (s Shipping) RaiseFileNum(ctx context.Context, first uint64) error {
	db := s.db
	if first < 1 || first > maxFirstFileNum {
		return fmt.Errorf("shale: raise file numbers: %d is not from 1 to 2^60 - 2^36", first)
	}
	if err := db.beginUsable(ctx); err != nil {
		return err
	}
	defer db.life.Calls.Done()
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

// Elsewhere notes in the manifest, durably, that tables may be at a place that is not the directory. The words are for
// people: if a table is missing, Open says that it may be there, with [ErrElsewhere], and does not call it damage. The
// file system of the store ([Options.FS]) finds tables there.
func (s Shipping) Elsewhere(place string) error {
	db := s.db
	if err := db.life.Begin(); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	if err := db.tree.AppendEdit(&manifest.Edit{Elsewhere: place}); err != nil {
		return callError("note where tables are", err)
	}
	return nil
}

// Evict removes the file of a table from the directory. The file system of the store must have the table elsewhere by
// now, and Elsewhere must have said so: the next read of the table opens it there. When Evict returns and the reads in
// progress have ended, the store has no descriptor and no mapping of the file that was here, so the disk gets its room
// back. If the store does not need the table any more, Evict does nothing.
func (s Shipping) Evict(table uint64) error {
	db := s.db
	if err := db.life.Begin(); err != nil {
		return err
	}
	defer db.life.Calls.Done()
	num := base.FileNum(table)
	if !db.tree.Needs(base.FileTable, num) {
		return nil
	}
	if err := db.fs.Remove(db.path(base.TableName(num))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return callError("evict", err)
	}
	db.tree.Reopen(num)
	db.deleter.NoteFreed()
	db.changes.Broadcast()
	return nil
}

// Sought returns how warm a table is: the number of blocks that lookups and seeks have read from its file since the file was
// opened or made. Blocks in the block cache do not count, and neither does what compactions read. A scan counts as one read of
// each table. The number wraps round at 2^32, and is 0 if the store does not need the table.
func (s Shipping) Sought(table uint64) uint32 { return s.db.tree.Sought(base.FileNum(table)) }

// Needs reports whether the store needs the table or sidecar with this number: the newest state has it, or an
// iterator, a snapshot or a Hold reads a state that has it.
func (s Shipping) Needs(file uint64) bool {
	return s.db.tree.Needs(base.FileTable, base.FileNum(file)) || s.db.tree.Needs(base.FileFilter, base.FileNum(file))
}

// commitGate returns ShippingOptions.Gate as the commit queue and Ingest ask it, or nil.
func (db *DB) commitGate() func(last base.Seq) error {
	gate := db.opts.Shipping.Gate
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
func (s Shipping) Hold() (*Hold, error) {
	db := s.db
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := db.life.Begin(); err != nil {
		return nil, err
	}
	defer db.life.Calls.Done()
	h := &Hold{db: db}
	db.tree.WithState(func(now *manifest.State) {
		h.keep(now)
		for _, l := range db.logs.Hold(now.Logs) {
			h.logs = append(h.logs, l.Num)
		}
	})
	return h, nil
}

// State returns what the manifest says of the store: its tables and sidecars, which are files of filters next to tables
// (Version), its logs from MinLog on, with the length and the last sequence number of those that are sealed, and
// numbers. NextFileNum is above the number of every file in it. The caller must not change what it points to.
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
// writing for. Every write returns cause, wrapped in [ErrReadOnly], and so does Resume. Only another
// Open ends that. Reads go on. A write whose group is being committed may still be acknowledged;
// [ShippingOptions.Gate] can prevent that. An earlier fence stays. Of a store that is closed, or was
// opened with ReadOnly, nothing changes.
func (s Shipping) Fence(cause error) {
	db := s.db
	if cause == nil {
		cause = errors.New("shale: fenced")
	}
	if !db.opts.ReadOnly && !db.life.Closing() {
		db.health.Fence(cause)
	}
}

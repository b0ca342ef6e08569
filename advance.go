package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
)

// A read-only handle takes no lock and writes nothing. It shows what was on disk when it was
// opened, and after each Advance what the writer of the directory has done until then:
//
//  1. load reads what was appended to the manifest. If the writer has begun another manifest, it
//     reads that one.
//  2. prepare opens the tables and sidecars that are new.
//  3. replay drops memtables whose logs are obsolete, because all their writes are in tables, and
//     puts what was appended to the logs into memtables. It goes on where it has stopped before.
//  4. publish makes memtables and tables the current view, together with the sequence number.
//
// What the handle shows is a prefix of the writer's commits after each step. The manifest is read
// before the logs: a write that is missing in the tables of step 1 is in the logs of step 3, or
// step 3 finds that a log is gone, and everything begins again. What was acknowledged before
// Advance began is in one of the two, because the writer acknowledges a write when the operating
// system has it.
//
// Readers go on meanwhile. Writes in memtables that readers have already are hidden from them by
// the sequence number. It becomes visible only in step 4, and before the view: with the new view
// and the old number a reader would miss a key of which the writer has dropped the old version.
// With the old view and the new number it sees the old state, because writes that follow others
// which came in tables go to a memtable that is not in the old view (hide).

// advanceTries is how often Advance begins again before it returns an error.
const advanceTries = 10

// Advance makes a handle that was opened with ReadOnly show what the writer of its directory has
// done since Open, or since the last Advance. It returns the number of the newest write that the
// handle shows then. It includes what was acknowledged before Advance began, on the same machine.
// What the handle shows is a prefix of the writer's commits, whole batches only, and never goes
// back. A write is shown as soon as it is in the log: so it may be one that its writer never sees
// acknowledged, because a sync fails, and that Resume undoes.
//
// Iterators and snapshots from before stay as they are, and valid: the files that they need stay
// open, also if the writer has removed them. Reads go on meanwhile. Calls of Advance wait for
// each other. With nothing new, Advance reads a few hundred bytes and opens no table.
//
// Next to a writer a file may vanish before it is opened, and the end of a file may be half
// written. Advance then begins again, several times. If it fails nevertheless, or ctx is done,
// the handle shows what it has shown before, and can advance later. ErrReplaced says that the
// directory holds another store now, or an older state of this one.
func (db *DB) Advance(ctx context.Context) (seq uint64, err error) {
	if err := db.begin(); err != nil {
		return 0, err
	}
	defer db.calls.Done()
	if !db.opts.ReadOnly {
		return 0, errors.New("shale: advance: the handle writes itself, so it has no writer to follow: open the store with ReadOnly")
	}
	f := db.follower
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return uint64(db.commits.Visible()), context.Cause(ctx)
	case <-db.ctx.Done():
		return 0, ErrClosed
	}
	err = f.advance(ctx)
	switch {
	case err == nil, err == context.Cause(ctx):
		return uint64(db.commits.Visible()), err
	case db.closing():
		return 0, ErrClosed
	}
	db.noteCorruption(err)
	return uint64(db.commits.Visible()), fmt.Errorf("shale: advance %s: %w", db.dir, err)
}

// lookAgain advances after a lookup has met err. It reports whether the lookup should look again,
// once: the handle is read-only, and a file was not there.
func (db *DB) lookAgain(err error) bool {
	if !db.opts.ReadOnly || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = db.Advance(db.ctx)
	return err == nil
}

// advance takes the steps, and begins again if one fails. Requires: it is the caller's turn.
func (f *follower) advance(ctx context.Context) (err error) {
	for attempt := range advanceTries {
		if err := f.pause(ctx, attempt); err != nil {
			return err
		}
		err = f.step(attempt < sidecarTries)
		if err == nil {
			f.shown = f.state
			return nil
		}
		if errors.Is(err, ErrReplaced) || errors.Is(err, ErrFormatTooNew) {
			break
		}
	}
	// What was read may have been of another store. The next Advance begins with what is shown.
	f.state = f.shown
	f.startOver()
	return err
}

// pause waits before an attempt, but for the first, and returns why there should be none.
func (f *follower) pause(ctx context.Context, attempt int) error {
	if attempt > 0 {
		select {
		case <-time.After(time.Duration(attempt) * 2 * time.Millisecond):
		case <-ctx.Done():
		case <-f.db.ctx.Done():
		}
	}
	switch {
	case f.db.closing():
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// step is one attempt of Advance. If it fails, the view is as before. What it has read of the
// logs is not read again. moving is that of tree.Loading.
func (f *follower) step(moving bool) error {
	if err := f.load(); err != nil {
		return err
	}
	for {
		next, err := f.prepare(moving)
		if err != nil {
			return err
		}
		err = f.replay(next)
		if err == logset.ErrStop {
			// The next batch is that of an ingestion, whose tables the manifest did not have
			// when it was read. If it has them now, all begins again. Else it is behind the logs.
			// The handle then shows what comes before the ingestion.
			state := f.state
			if err = f.load(); err == nil && f.state != state {
				next.Drop()
				continue
			}
		}
		if err == nil {
			err = f.publish(next)
		}
		if err != nil {
			next.Drop()
		}
		return err
	}
}

// load reads what is new in the manifest.
func (f *follower) load() error {
	state, err := manifest.Follow(f.db.fs, f.db.dir, f.state)
	if err != nil {
		return err
	}
	was := f.state
	switch {
	case state.StoreID != was.StoreID:
		return fmt.Errorf("%w: its id is %#x, that of the handle %#x", ErrReplaced, state.StoreID, was.StoreID)
	case state.NextFileNum < was.NextFileNum || state.ManifestNum == was.ManifestNum && state.Length < was.Length:
		// Numbers of files are never given out twice, also not by the next writer.
		return fmt.Errorf("%w: %s, with %d bytes, is older than what the handle has read", ErrReplaced,
			base.ManifestName(state.ManifestNum), state.Length)
	}
	f.state = state
	return nil
}

// prepare opens what the tables of the state have and the view has not. The result is nil if the
// tables are the same.
func (f *follower) prepare(moving bool) (*tree.Step, error) {
	db, meta := f.db, f.state.Version
	if meta == db.view.Load().Meta {
		return nil, nil
	}
	next, err := db.tree.Step(meta, db.loading(f.state, moving), db.filterUnusable)
	if err != nil {
		return nil, err
	}
	for _, t := range next.Opened {
		db.reportFilter(t)
		f.flushed = max(f.flushed, t.Meta.MaxSeq)
	}
	return next, nil
}

// replay brings the memtables of the next view up to date. next is what prepare has returned.
func (f *follower) replay(next *tree.Step) error {
	// A MinLog that has fallen is that of an edit which is undone, because the writer could not
	// sync it.
	if f.stopped || f.state.MinLog < f.minLog {
		f.startOver()
	}
	f.minLog = f.state.MinLog
	f.dropFlushed()
	// With new tables, writes may come that are not in the logs any more.
	if next != nil && f.state.LastSeq > f.db.commits.Visible() {
		f.hide()
	}
	opts := logset.ReplayOptions{StoreID: f.db.storeID, ReadOnly: true, Apply: f.apply}
	err := f.db.logs.Follow(f.state, opts)
	if errors.Is(err, logset.ErrUndone) {
		f.startOver()
		err = f.db.logs.Follow(f.state, opts)
	}
	return err
}

// startOver forgets all memtables of the next view, and where the logs were left.
func (f *follower) startOver() {
	for _, imm := range f.imms {
		f.giveUp(imm.mem)
	}
	f.giveUp(f.mem)
	f.mem, f.imms, f.minLog, f.last, f.flushed, f.stopped = f.db.newMemtable(), nil, f.state.MinLog, 0, 0, false
	for t := range f.state.Version.Tables() {
		f.flushed = max(f.flushed, t.MaxSeq)
	}
	f.db.logs.StartOver()
}

// dropFlushed takes memtables out of the next view that have only writes of obsolete logs.
func (f *follower) dropFlushed() {
	f.imms = slices.DeleteFunc(slices.Clone(f.imms), func(imm *immutable) bool {
		if imm.newest < f.minLog {
			f.giveUp(imm.mem)
		}
		return imm.newest < f.minLog
	})
	if !f.mem.Empty() && f.newest < f.minLog {
		f.giveUp(f.mem)
		f.mem = f.db.newMemtable()
	}
}

// giveUp releases a memtable, unless readers have it: then publish releases it.
func (f *follower) giveUp(mem *memtable.Memtable) {
	if !f.db.view.Load().has(mem) {
		mem.Release()
	}
}

// hide makes sure that no reader finds what comes next: it begins a memtable that is not in the
// current view.
func (f *follower) hide() {
	switch {
	case f.mem != f.db.view.Load().mem:
		return
	case f.mem.Empty():
		f.mem = f.db.newMemtable() // publish releases the old one
	default:
		f.freeze()
	}
}

// publish makes the memtables, and the tables of next, what readers see.
func (f *follower) publish(next *tree.Step) error {
	db := f.db
	shown := db.commits.Visible()
	if found := max(f.state.LastSeq, db.logs.LastSeq(), f.last); found < shown {
		return fmt.Errorf("%w: its newest write has number %d, and the handle shows %d", ErrReplaced, found, shown)
	}
	seq := max(shown, f.state.LastSeq, f.last)
	old := db.view.Load()
	db.commits.Skip(seq)
	if next == nil && f.mem == old.mem && slices.Equal(f.imms, old.imms) {
		if seq > shown {
			db.snapshots.Publish(func() { db.commits.Publish(seq) })
		}
		return nil
	}
	swap := func(v *tree.Version) {
		db.view.replace(v, func(v *view) { v.mem, v.imms = f.mem, f.imms }, func(v *view) {
			// The number comes first: see the beginning of this file.
			db.snapshots.Publish(func() {
				db.commits.Publish(seq)
				db.view.Store(v)
			})
		})
	}
	if next == nil {
		swap(old.Version)
	} else {
		db.tree.Take(next, &tree.Change{
			Epoch: db.filters.Epoch,
			Publish: func(v *tree.Version) {
				done := db.filters.Changing()
				next.UseFilters()
				done()
				swap(v)
			},
			Installed: func(_, v *tree.Version) { db.filters.FitSoon(v) },
		})
	}
	for mem := range old.memtables() {
		if !db.view.Load().has(mem) {
			mem.Freeze()
			mem.Release()
		}
	}
	db.releaseAll(old)
	return nil
}

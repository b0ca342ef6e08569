package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
)

// This file has how a read-only handle follows the writer of its directory.

// A read-only handle takes no lock and writes nothing. It shows what was on disk when it was
// opened, and after each Advance what the writer of the directory has done until then:
//
//  1. load reads what was appended to the manifest. If the writer has begun another manifest, it
//     reads that one.
//  2. prepare opens the tables and sidecars that are new, unless an attempt before has opened them.
//  3. readLogs drops memtables whose writes are all in tables, and puts what was appended to the
//     logs into memtables. It goes on where it has stopped before.
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
// which came in tables go to a memtable that is not in the old view (Hide).

// A follower follows the writer of the directory of a read-only handle. The caller of Open, or of
// Advance, that has its turn owns all fields.
type follower struct {
	db   *DB
	turn chan struct{} // holds a token while it is the turn of an Advance

	state  *manifest.State // the newest that was read
	shown  *manifest.State // that of the current view; nil: Open is at work
	next   *tree.Step      // what attempts have opened for the next view; nil: nothing
	behind base.FileNum    // the newest log when the first attempt of a call had failed; 0: none has
	minLog base.FileNum    // memtables of logs below it were dropped
	seen   base.Seq        // the highest number in a memtable of the current view or the next; readers may not see it yet

	// The memtables of the next view, and how far the logs were read. Batches are added to Mem,
	// which may be in the current view too. stopped says that Open has met the mark of an ingestion
	// of which the manifest does not know yet, and has left out what follows.
	replay
}

// newFollower returns a follower that has read nothing.
func newFollower(db *DB) *follower {
	f := &follower{db: db, turn: make(chan struct{}, 1)}
	f.mark, f.clock = f.passMark, &db.snapshots.Clock
	return f
}

// Advance makes a handle that was opened with ReadOnly show what the writer of its directory has
// done since Open, or since the last Advance. It returns the number of the newest write that the
// handle shows then. It includes what was acknowledged before Advance began, on the same machine.
// What the handle shows is a prefix of the writer's commits, whole batches only, and never goes
// back. A write is shown as soon as it is in the log: so it may be one that its writer never sees
// acknowledged, because a sync fails or the gate refuses it ([ShippingOptions.Gate]), and that Resume undoes.
//
// Iterators and snapshots from before stay as they are, and valid: the files that they need stay
// open, also if the writer has removed them, as long as there are no more than
// [Options.Tuning].MaxOpenFiles. Of more files some are closed. If a read needs one of those and the writer
// has removed it, lookups, GetMany and Scan of the handle begin again after an Advance of their
// own; a snapshot, an iterator or a Scan in its middle returns an error that wraps fs.ErrNotExist.
// Reads go on meanwhile. Calls of Advance wait for each other. With nothing new, Advance reads a
// few hundred bytes and opens no table.
//
// Next to a writer a file may vanish before it is opened, and the end of a file may be half
// written. Advance then begins again, for as long as each attempt shows that the writer has got
// further, and goes on with what it has opened already. It fails if it meets the same error
// again: then a file is damaged, or the system refuses. If it fails, or ctx is done, the handle
// shows what it has shown before, and can advance later. [ErrReplaced] says that the directory holds
// another store now, or a state of this one that does not come after what the handle shows: a
// backup was restored there, or a power cut has taken writes that were shown. So does a store that
// was opened for writing more than 128 times since the last Advance.
func (db *DB) Advance(ctx context.Context) (seq uint64, err error) {
	if err := db.life.Begin(); err != nil {
		return 0, err
	}
	defer db.life.Calls.Done()
	if !db.opts.ReadOnly {
		return 0, errors.New("shale: advance: the handle writes itself, so it has no writer to follow: open the store with ReadOnly")
	}
	if err := base.ContextError(ctx); err != nil {
		return uint64(db.commits.Visible()), err
	}
	f := db.follower
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return uint64(db.commits.Visible()), base.ContextError(ctx)
	case <-db.life.Context.Done():
		return 0, ErrClosed
	}
	err = f.advance(ctx)
	switch {
	case err == nil, ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return uint64(db.commits.Visible()), err
	case db.life.Closing():
		return 0, ErrClosed
	}
	db.noteCorruption(err)
	return uint64(db.commits.Visible()), fmt.Errorf("shale: advance %s: %w", db.dir, err)
}

// lookAgain is called after a read of v has met err. It reports whether the read should begin again: the handle is
// read-only, a file was not there, and lookAgain has advanced to another view. gone is empty at first, and for lookAgain
// only. A file that is missed twice is lost: the writer removes it only after the manifest says that it is not needed.
// That is why lookAgain advances even if others have done so since v: they may have read the manifest before.
func (db *DB) lookAgain(v *memqueue.View, err error, gone *string) bool {
	if !db.takenAway(err) {
		return false
	}
	name := err.Error()
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		name = e.Path
	}
	if name == *gone {
		return false
	}
	*gone = name
	_, err = db.Advance(db.life.Context)
	return err == nil && db.mems.View() != v
}

// takenAway reports whether err may say that the writer next to a read-only handle has removed a file.
func (db *DB) takenAway(err error) bool { return db.opts.ReadOnly && errors.Is(err, fs.ErrNotExist) }

// advance takes the steps, and begins again if one fails. Open calls it for the first state that the handle shows, and
// Advance for all others. Requires: it is the caller's turn.
func (f *follower) advance(ctx context.Context) (err error) {
	var p patience
	f.behind = 0
	for attempt := 0; ; attempt++ {
		if err := f.pause(ctx, attempt); err != nil {
			return err
		}
		was := f.state
		// A sidecar that is missed twice is lost, and its table does without.
		if err = f.step(!p.twice); err == nil {
			f.shown = f.state
			return nil
		}
		replaced := errors.Is(err, ErrReplaced)
		if f.state == nil && errors.Is(err, fs.ErrNotExist) || replaced && f.shown != nil || !p.again(err, f.state != was) {
			break
		}
		if replaced { // while Open was at work: it opens the store that is there now
			f.drop()
			f.state, f.behind = nil, 0
		} else if f.behind == 0 {
			f.behind = f.newestLog()
		}
	}
	f.drop()
	if f.shown != nil {
		// What was read may have been of another store. The next Advance begins with what is shown.
		f.state = f.shown
		f.startOver()
	}
	return err
}

// drop closes what attempts have opened for the next view.
func (f *follower) drop() {
	f.next.Drop()
	f.next = nil
}

// pause waits before an attempt, but for the first, and returns why there should be none.
func (f *follower) pause(ctx context.Context, attempt int) error {
	if attempt > 0 {
		select {
		case <-time.After(time.Duration(min(attempt, 10)) * 2 * time.Millisecond):
		case <-ctx.Done():
		case <-f.db.life.Context.Done():
		}
	}
	switch {
	case f.db.life.Closing():
		return ErrClosed
	case ctx.Err() != nil:
		return base.ContextError(ctx)
	}
	return nil
}

// step is one attempt. If it fails, the view is as before. What it has opened and what it has read of the logs serves
// the next attempt. moving is that of tree.Loading.
func (f *follower) step(moving bool) error {
	load := f.load
	if f.state == nil {
		load = f.begin
	}
	if err := load(); err != nil {
		return err
	}
	for {
		if err := f.prepare(moving); err != nil {
			return err
		}
		err := f.readLogs()
		if err == logset.ErrStop {
			// The next batch is that of an ingestion, whose tables the manifest did not have
			// when it was read. If it has them now, all begins again. Else it is behind the logs.
			// The handle then shows what comes before the ingestion.
			state := f.state
			if err = f.load(); err == nil && f.state != state {
				continue
			}
		}
		// A writer that rotates its logs faster than they can be opened does not hold the handle up: its
		// tables have all that it had acknowledged before, and they are a prefix of its commits. LastSeq is the number
		// of that prefix unless a new manifest began since, which also counts writes that are only in logs.
		if err != nil && f.behind > 0 && f.state.MinLog > f.behind && f.state.Flushed == f.state.LastSeq {
			f.startOver()
			err = nil
		}
		if err != nil {
			return err
		}
		return f.publish()
	}
}

// newestLog returns the highest number of a log in the directory, or of any log if that can't be read.
func (f *follower) newestLog() (newest base.FileNum) {
	names, err := f.db.fs.List(f.db.dir)
	if err != nil {
		return math.MaxUint64
	}
	for _, name := range names {
		if t, n, ok := base.ParseFileName(name); ok && t == base.FileLog {
			newest = max(newest, n)
		}
	}
	return newest
}

// begin reads the manifest for Open.
func (f *follower) begin() error {
	state, err := manifest.Load(f.db.fs, f.db.dir)
	if err != nil {
		return err
	}
	f.state, f.db.storeID = state, state.StoreID
	f.seen, f.flushed = 0, 0 // of an attempt that may have read another store
	return nil
}

// load reads what is new in the manifest. It finds out whether the directory still holds the store
// that the handle shows, and not a state of before that was restored and perhaps written again. Such
// a state has the same store id, and gives the same numbers to other writes and files. But it was
// written in another session (manifest.Session).
//
// The directory may also be replaced between the steps of an attempt. That does no harm, because each part
// of the next view is known by more than its number:
//
//   - What was read of the manifest before, by the checksum of its last record, which covers all
//     records before it (manifest.Follow).
//   - Tables, by their session, and sidecars, by the checksum of their filter. The manifest says which
//     these must be. (The checksum of a table depends on little but the lengths of its blocks.)
//   - Logs, by their session, which the manifest states too. Within a session, a number is given to one log.
//     A log of an earlier session is read up to the length that the manifest states. The log of the newest
//     session has no stated end, but it is a prefix of the same log in each copy of it. Each log states
//     the end of the one before it, so that nothing is missing in between.
//   - Memtables have writes up to number seen. So if a later session began with that number or a higher
//     one, all of them are writes of its history too.
//
// The manifests and logs of earlier programs have no sessions. For them, only numbers that are lower
// than before tell that the directory was replaced.
func (f *follower) load() error {
	state, err := manifest.Follow(f.db.fs, f.db.dir, f.state)
	if err != nil {
		return err
	}
	was := f.state
	switch seen := max(f.db.commits.Visible(), f.seen, f.flushed); {
	case state.StoreID != was.StoreID:
		return fmt.Errorf("%w: its id is %#x, that of the handle %#x", ErrReplaced, state.StoreID, was.StoreID)
	case !state.Extends(was, seen):
		return fmt.Errorf("%w: its newest session is %016x, which does not come after number %d of session %016x", ErrReplaced,
			state.Session(), seen, was.Session())
	case state.Session() == was.Session() && (state.NextFileNum < was.NextFileNum ||
		state.ManifestNum == was.ManifestNum && state.Length < was.Length):
		// Within a session, the numbers of files rise.
		return fmt.Errorf("%w: %s, with %d bytes, is older than what the handle has read", ErrReplaced,
			base.ManifestName(state.ManifestNum), state.Length)
	}
	f.state = state
	return nil
}

// prepare opens what the tables of the state have and the view has not. next is nil then if the tables are the same.
func (f *follower) prepare(moving bool) (err error) {
	db, meta := f.db, f.state.Version
	if meta == db.mems.View().Meta {
		f.drop()
		return nil
	}
	if f.next, err = db.tree.Step(f.next, meta, db.loading(f.state, moving), db.filterUnusable); err != nil {
		return err
	}
	db.snapshots.Clock.Raise(f.state.Clock)
	for _, t := range f.next.Opened {
		db.snapshots.Clock.Note(t.Meta.Expiring > 0)
		f.flushed = max(f.flushed, t.Meta.MaxSeq)
	}
	if f.shown == nil {
		return db.chooseHasher(slices.Values(f.next.Opened)) // before the first memtable, which hashes with it
	}
	return nil
}

// readLogs brings the memtables of the next view up to date.
func (f *follower) readLogs() error {
	defer func() { f.seen = max(f.seen, f.last) }()
	if f.shown == nil {
		return f.replayAll()
	}
	// A MinLog that has fallen is that of an edit which is undone, because the writer could not
	// sync it.
	if f.stopped || f.state.MinLog < f.minLog {
		f.startOver()
	}
	f.minLog = f.state.MinLog
	f.dropFlushed()
	// With new tables, writes may come that are not in the logs any more.
	if f.next != nil && f.state.LastSeq > f.db.commits.Visible() {
		f.Hide()
	}
	f.perLog = true
	opts := logset.ReplayOptions{StoreID: f.db.storeID, ReadOnly: true, Apply: f.apply}
	err := f.db.logs.Follow(f.state, opts)
	if errors.Is(err, logset.ErrUndone) {
		f.seen = max(f.seen, f.last)
		f.startOver()
		err = f.db.logs.Follow(f.state, opts)
	}
	return err
}

// replayAll is readLogs for Open, which reads the logs as a writer does: the end of the last one is judged at once.
func (f *follower) replayAll() error {
	f.startOver()
	state := *f.state // Replay changes its logs
	r, err := f.db.logs.Replay(&state, logset.ReplayOptions{StoreID: f.db.storeID, ReadOnly: true, Apply: f.apply})
	switch {
	case err != nil:
		return err
	case f.stopped:
		return logset.ErrStop
	}
	f.last = max(f.last, r.LastSeq) // the numbers of failed writes are in no batch
	return nil
}

// passMark passes over the mark of an ingestion. Next to a writer the manifest that was read may be
// older than the mark. Then nothing that follows may be shown.
func (f *follower) passMark(seq base.Seq) error {
	switch {
	case seq <= f.state.LastSeq:
		f.last = seq
	case f.shown != nil:
		return logset.ErrStop
	default:
		f.stopped = true
	}
	return nil
}

// startOver forgets all memtables of the next view, and where the logs were left.
func (f *follower) startOver() {
	f.StartOver()
	f.minLog, f.last, f.flushed, f.stopped = f.state.MinLog, 0, 0, false
	for t := range f.state.Version.Tables() {
		f.flushed = max(f.flushed, t.MaxSeq)
	}
	f.db.logs.StartOver()
}

// dropFlushed takes memtables out of the next view that have only writes of obsolete logs, or only writes that tables have.
// The first does not say the second, since tables drop their last writes in compactions. The second does not say the first: the
// manifest may keep a log whose writes are in tables (see memqueue.Queue.LogAfter and replaceLog). If only the first part of it was
// read before the tables came, the memtable of that part would hide newer versions in the tables.
func (f *follower) dropFlushed() {
	f.Forget(func(mem *memtable.Memtable, newest base.FileNum) bool {
		return newest < f.minLog || mem.LastSeq() <= f.flushed
	})
}

// publish makes the memtables, and the tables of next, what readers see.
func (f *follower) publish() error {
	db, next := f.db, f.next
	shown := db.commits.Visible()
	if found := max(f.state.LastSeq, db.logs.LastSeq(), f.last); found < shown {
		return fmt.Errorf("%w: its newest write has number %d, and the handle shows %d", ErrReplaced, found, shown)
	}
	seq := max(shown, f.state.LastSeq, f.last)
	f.seen = f.last // nothing else is in the memtables of the next view
	old := db.mems.View()
	db.commits.Skip(seq)
	if next == nil && !f.Changed() {
		if seq > shown {
			db.snapshots.Publish(func() { db.commits.Publish(seq) })
		}
		return nil
	}
	e := db.tree.Begin()
	defer e.End()
	tables := old.Version
	if next != nil {
		f.next = nil
		e.Take(next)
		tables = e.Next
		next.UseFilters()
	}
	v := db.mems.Begin(tables)
	v.Mem, v.Imms = f.Mem, f.Imms
	db.snapshots.Publish(func() {
		// The number comes first: see the beginning of this file.
		db.commits.Publish(seq)
		db.mems.End(v)
	})
	e.End()
	if next != nil {
		db.filters.FitSoon(tables)
		for _, t := range next.Opened {
			db.reportFilter(t)
		}
		if f.shown == nil {
			db.readFilters(next.Complete)
		}
	}
	db.mems.ReleaseReplaced(old)
	return nil
}

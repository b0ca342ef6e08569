package shale

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/tree"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// maxKeptLogs is the number of logs up to which a recovered memtable stays in memory
// instead of being flushed. Programs that open the store, write little and close it should
// not make a table each time, nor replay ever more logs.
const maxKeptLogs = 8

// A follower puts batches of the logs into memtables. Open uses it to read the logs once, and a
// read-only handle goes on to follow the writer of its directory: see advance.go. The caller of
// Open, or of Advance, that has its turn owns all fields.
type follower struct {
	db   *DB
	turn chan struct{} // holds a token while it is the turn of an Advance

	state   *manifest.State // the newest that was read
	shown   *manifest.State // that of the current view; nil: Open is at work
	next    *tree.Step      // what attempts have opened for the next view; nil: nothing
	behind  base.FileNum    // the newest log when the first attempt of a call had failed; 0: none has
	minLog  base.FileNum    // memtables of logs below it were dropped
	flushed base.Seq        // batches up to this number are in tables
	last    base.Seq        // the last batch of the logs that was applied
	seen    base.Seq        // the highest number in a memtable of the current view or the next; readers may not see it yet

	// The memtables of the next view. Batches are added to mem, which may be in the current view
	// too. oldest and newest are logs with writes of mem.
	mem            *memtable.Memtable
	imms           []*memqueue.Immutable // newest first
	oldest, newest base.FileNum

	// stopped says that Open has met the mark of an ingestion of which the manifest does not know
	// yet, and has left out what follows.
	stopped bool
}

// newFollower returns a follower that has read nothing.
func newFollower(db *DB) *follower { return &follower{db: db, turn: make(chan struct{}, 1)} }

// replayLogs puts the writes of the live logs back into memtables, in the order of writing, and
// makes these the ones of the view. logset.Set.Replay decides which logs must be there and where
// each of them ends. LastSeq of the result is the last number of all that was recovered. Requires: openVersion was called; nobody else
// uses the store yet.
func (db *DB) replayLogs(state *manifest.State) (logset.Replayed, error) {
	v := db.mems.View()
	f := db.follower
	*f = follower{db: db, state: state, mem: v.Mem, flushed: db.mems.FlushedSeq()}
	r, err := db.logs.Replay(state, logset.ReplayOptions{StoreID: db.storeID, Apply: f.apply})
	if err != nil {
		return r, err
	}
	// Numbers are never given out twice. LastSeq of the state may be above those of all tables: see
	// replaceLog.
	r.LastSeq = max(r.LastSeq, state.LastSeq, f.flushed)
	db.mems.Open(memqueue.NewView(f.mem, f.imms, v.Version))
	if !f.mem.Empty() {
		db.mems.SetLog(f.oldest)
	}
	// The manifest may not know of the newest logs, whose numbers are taken all the same.
	db.tree.SkipFileNums(r.HighestNum)
	state.LastSeq = max(state.LastSeq, f.last, f.flushed)
	*f = follower{} // the memtables are the view's alone now
	return r, nil
}

// recovered makes all that was recovered visible, up to number last. Later numbers are higher ones.
func (db *DB) recovered(last base.Seq) {
	db.commits.Skip(last)
	db.commits.Publish(last)
}

// apply applies one batch of log num, unless a table has it already. A memtable that is full
// becomes immutable. Bytes that are no batch, and numbers that do not rise, are damage.
func (f *follower) apply(num base.FileNum, payload []byte) error {
	seq, b, err := decodeBatch(payload)
	if err != nil {
		return batchError(num, err)
	}
	// A batch is flushed as a whole, so it is in a table if its first number is not above
	// the highest there. Its last number may be above that, because a compaction may have
	// dropped its last entries.
	if b.count == 0 || seq <= f.flushed || f.stopped {
		return nil
	}
	if seq <= f.last {
		return base.Corruption(base.LogName(num), -1, "batch",
			fmt.Errorf("sequence number %d comes again", seq))
	}
	if _, _, mark := b.Ingested(); mark {
		return f.passMark(seq)
	}
	// With Advance each log has a memtable of its own. It can go as soon as tables have its writes. Mostly
	// that is for the whole log at once, since the writer begins another log with each memtable.
	if !f.mem.Empty() && (f.shown != nil && f.newest != num || f.mem.Taken() >= f.db.opts.MemtableSize && f.mem.Taken() >= f.room()) {
		f.freeze()
	}
	if f.mem.Empty() {
		f.oldest = num
	}
	f.mem.BeginWrite()
	(*committed)(b).Apply(f.mem)
	f.mem.EndWrite()
	f.newest, f.last = num, seq+base.Seq(b.count)-1
	f.seen = max(f.seen, f.last)
	return nil
}

// passMark passes over the mark of an ingestion, whose tables the manifest had before the log had
// the mark. If there is none of them now, all that the ingestion wrote was overwritten and compacted
// away. But next to a writer the manifest that was read may be older than the mark. Then nothing
// that follows may be shown.
func (f *follower) passMark(seq base.Seq) error {
	switch {
	case !f.db.opts.ReadOnly || seq <= f.state.LastSeq:
		f.last = seq
	case f.shown != nil:
		return logset.ErrStop
	default:
		f.stopped = true
	}
	return nil
}

// freeze makes the memtable immutable, and begins another.
func (f *follower) freeze() {
	f.mem.Freeze()
	f.imms = append([]*memqueue.Immutable{{Mem: f.mem, Log: f.oldest, Newest: f.newest}}, f.imms...)
	f.mem = f.db.mems.NewMemtableOf(f.room())
}

// room returns how many bytes the memtable may have: half of what the immutable ones have, if that
// is more than MemtableSize. So logs that were written with a larger MemtableSize make few
// memtables. All are in memory together anyway, but each is flushed by itself.
func (f *follower) room() int64 {
	sum := int64(0)
	for _, imm := range f.imms {
		sum += imm.Mem.Taken()
	}
	return max(f.db.opts.MemtableSize, sum/2)
}

// batchError names the log of a batch that could not be decoded. Its bytes have passed the
// record's checksum. So an unknown kind of operation comes from a newer program and is not
// damage.
func batchError(num base.FileNum, err error) error {
	if errors.Is(err, ErrFormatTooNew) {
		return fmt.Errorf("%s: %w", base.LogName(num), err)
	}
	return base.Corruption(base.LogName(num), -1, "batch", err)
}

// beginLog begins a log of our own, which names the newest recovered one. A recovered
// memtable that is large, or made of many logs, becomes immutable and is flushed later.
// Else it takes the next writes, and its logs stay until it is flushed.
func (db *DB) beginLog(h wal.Header) error {
	v := db.mems.View()
	if db.logs.Count() > maxKeptLogs || v.Mem.Taken() > db.opts.MemtableSize/2 {
		db.mems.Freeze()
	}
	if err := db.logs.Begin(h); err != nil {
		return err
	}
	if db.mems.View().Mem.Empty() {
		// A memtable that is not empty keeps the number of its oldest log: see replayLogs.
		db.mems.SetLog(db.logs.CurrentNum())
	}
	db.forgetRecovered()
	return nil
}

// forgetRecovered lets the recovered logs go if all their writes are in tables. Otherwise a
// store that is opened, read and closed again and again would keep one more log each time.
// sweepDir removes the files. The manifest must not need them any more, so if the edit
// fails, they stay.
func (db *DB) forgetRecovered() {
	v := db.mems.View()
	if db.logs.Count() == 1 || !v.Mem.Empty() || len(v.Imms) > 0 {
		return
	}
	if err := db.tree.AppendEdit(&manifest.Edit{MinLog: db.logs.CurrentNum(), LastSeq: db.commits.Last()}); err != nil {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "manifest", Err: err})
		return
	}
	db.logs.ForgetRecovered()
}

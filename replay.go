package shale

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

// This file puts the writes of logs back into memtables when the store is opened.

// maxKeptLogs is the number of logs up to which a recovered memtable stays in memory
// instead of being flushed. Programs that open the store, write little and close it should
// not make a table each time, nor replay ever more logs.
const maxKeptLogs = 8

// A replay puts batches of the logs into memtables. Open uses it to read the logs once, and a
// follower to go on reading those of another process.
type replay struct {
	memqueue.Replay
	clock   *commit.Clock            // notes values that expire
	perLog  bool                     // see memqueue.Replay.Add
	flushed base.Seq                 // batches up to this number are in tables
	last    base.Seq                 // the last batch of the logs that was applied
	mark    func(seq base.Seq) error // what to do at the mark of an ingestion with number seq
	stopped bool                     // what follows is left out
}

// replayLogs puts the writes of the live logs back into memtables, in the order of writing, and
// makes these the ones of the view. logset.Set.Replay decides which logs must be there and where
// each of them ends. LastSeq of the result is the last number of all that was recovered. Requires: openVersion was called; nobody else
// uses the store yet.
func (db *DB) replayLogs(state *manifest.State) (logset.Replayed, error) {
	v := db.mems.View()
	f := replay{Replay: db.mems.NewReplay(v.Mem), clock: &db.snapshots.Clock, flushed: db.mems.FlushedSeq()}
	// The manifest had the tables of an ingestion before the log had the mark. If there is none of
	// them now, all that the ingestion wrote was overwritten and compacted away.
	f.mark = func(seq base.Seq) error { f.last = seq; return nil }
	r, err := db.logs.Replay(state, logset.ReplayOptions{StoreID: db.storeID, Apply: f.apply})
	if err != nil {
		return r, err
	}
	// An ingestion may have numbers that no log has: see ingestion.mark. The next log says so to feeds. They would take the number
	// of a write that has failed for one, or pass the write on, so that is not stated.
	kept := state.Flushed
	if kept == 0 { // no edit of this manifest tells which numbers have failed
		kept = state.LastSeq
	}
	r.Header.PrevSeq = max(r.LastSeq, kept, f.flushed)
	// Numbers are never given out twice. LastSeq of the state may be above those of all tables: see
	// replaceLog.
	r.LastSeq = max(r.LastSeq, state.LastSeq, f.flushed)
	db.mems.Show(&f.Replay)
	// The manifest may not know of the newest logs, whose numbers are taken all the same.
	db.tree.SkipFileNums(r.HighestNum)
	state.LastSeq = max(state.LastSeq, f.last, f.flushed)
	return r, nil
}

// recovered makes all that was recovered visible, up to number last. Later numbers are higher ones.
func (db *DB) recovered(last base.Seq) {
	db.commits.Skip(last)
	db.commits.Publish(last)
}

// apply applies one batch of log num, unless a table has it already. Bytes that are no batch, and
// numbers that do not rise, are damage.
func (r *replay) apply(num base.FileNum, payload []byte) error {
	seq, b, err := decodeBatch(payload)
	if err != nil {
		return batchError(num, err)
	}
	// A batch is flushed as a whole, so it is in a table if its first number is not above
	// the highest there. Its last number may be above that, because a compaction may have
	// dropped its last entries.
	if b.count == 0 || seq <= r.flushed || r.stopped {
		return nil
	}
	if seq <= r.last {
		return base.Corruption(base.LogName(num), -1, "batch",
			fmt.Errorf("sequence number %d comes again", seq))
	}
	if _, _, mark := b.Ingested(); mark {
		return r.mark(seq)
	}
	r.clock.Note(b.expiring)
	r.Add(num, r.perLog, (*committed)(b).Apply)
	r.last = seq + base.Seq(b.count) - 1
	return nil
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
	return nil
}

package shale

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/wal"
)

// maxKeptLogs is the number of logs up to which a recovered memtable stays in memory
// instead of being flushed. Programs that open the store, write little and close it should
// not make a table each time, nor replay ever more logs.
const maxKeptLogs = 8

// replayLogs puts the writes of the live logs back into memtables, in the order of writing.
// logset.Set.Replay decides which logs must be there and where each of them ends. It calls
// replayBatch for each record. When replayLogs returns nil, readers will see all that was
// recovered, and later numbers are higher than those in the logs. Requires: openVersion was
// called; nobody else uses the store yet.
func (db *DB) replayLogs(state *manifest.State) (logset.Replayed, error) {
	r, err := db.logs.Replay(state, logset.ReplayOptions{StoreID: db.storeID, ReadOnly: db.opts.ReadOnly, Apply: db.replayBatch})
	if err != nil {
		return r, err
	}
	// The manifest may not know of the newest logs, whose numbers are taken all the same.
	db.tree.SkipFileNums(r.HighestNum)
	db.commits.Skip(r.LastSeq)
	db.commits.Publish(db.commits.Last())
	return r, nil
}

// replayBatch applies one batch of log num, unless a table has it already. A memtable that
// is full becomes immutable, and the flusher takes it once it runs. Bytes that are no
// batch, and numbers that do not rise, are damage.
func (db *DB) replayBatch(num base.FileNum, payload []byte) error {
	seq, b, err := decodeBatch(payload)
	if err != nil {
		return batchError(num, err)
	}
	last := seq + base.Seq(b.count) - 1
	// A batch is flushed as a whole, so it is in a table if its first number is not above
	// the highest there. Its last number may be above that, because a compaction may have
	// dropped its last entries.
	if b.count == 0 || uint64(seq) <= db.flusher.flushedSeq.Load() {
		return nil
	}
	if seq <= db.lastReplayed() {
		return base.Corruption(base.LogName(num), -1, "batch",
			fmt.Errorf("sequence number %d comes again", seq))
	}
	if _, _, mark := b.Ingested(); mark {
		// The number was taken by an ingestion that is no longer in a table of its own: all
		// that it wrote was overwritten and compacted away.
		db.commits.Skip(last)
		return nil
	}
	v := db.view.Load()
	if v.mem.Taken() >= db.opts.MemtableSize && !v.mem.Empty() {
		db.freezeMemtable()
		v = db.view.Load()
	}
	if v.mem.Empty() {
		db.view.setLog(num)
	}
	v.mem.BeginWrite()
	(*committed)(b).Apply(v.mem)
	v.mem.EndWrite()
	db.commits.Skip(last)
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

// lastReplayed returns the newest sequence number of the memtables.
func (db *DB) lastReplayed() base.Seq {
	v := db.view.Load()
	last := v.mem.LastSeq()
	for _, imm := range v.imms {
		last = max(last, imm.mem.LastSeq())
	}
	return last
}

// newMemtable returns an empty memtable. Its memory is that of memtables that were flushed,
// as far as the pool has some. Requires: chooseHasher was called.
func (db *DB) newMemtable() *memtable.Memtable {
	return memtable.New(memtable.Options{Size: db.opts.MemtableSize, Hasher: db.hasher, Pool: db.memory})
}

// beginLog begins a log of our own, which names the newest recovered one. A recovered
// memtable that is large, or made of many logs, becomes immutable and is flushed later.
// Else it takes the next writes, and its logs stay until it is flushed.
func (db *DB) beginLog(h wal.Header) error {
	v := db.view.Load()
	if db.logs.Count() > maxKeptLogs || v.mem.Taken() > db.opts.MemtableSize/2 {
		db.freezeMemtable()
	}
	if err := db.logs.Begin(h); err != nil {
		return err
	}
	if db.view.Load().mem.Empty() {
		// A memtable that is not empty keeps the number of its oldest log: see replayBatch.
		db.view.setLog(db.logs.CurrentNum())
	}
	db.forgetRecovered()
	return nil
}

// forgetRecovered lets the recovered logs go if all their writes are in tables. Otherwise a
// store that is opened, read and closed again and again would keep one more log each time.
// sweepDir removes the files. The manifest must not need them any more, so if the edit
// fails, they stay.
func (db *DB) forgetRecovered() {
	v := db.view.Load()
	if db.logs.Count() == 1 || !v.mem.Empty() || len(v.imms) > 0 {
		return
	}
	if err := db.tree.AppendEdit(&manifest.Edit{MinLog: db.logs.CurrentNum(), LastSeq: db.commits.Last()}); err != nil {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "manifest", Err: err})
		return
	}
	db.logs.ForgetRecovered()
}

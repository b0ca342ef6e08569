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

// maxKeptLogs is the number of logs up to which a recovered memtable stays in
// memory instead of being flushed: programs that open, write little and close
// should not make a table each time, nor replay ever more logs.
const maxKeptLogs = 8

// replayLogs puts the writes of the live logs back into memtables, in order.
func (db *DB) replayLogs(state *manifest.State) (logset.Replayed, error) {
	r, err := db.logs.Replay(state, logset.ReplayOptions{StoreID: db.storeID, ReadOnly: db.opts.ReadOnly, Apply: db.replayBatch})
	if err != nil {
		return r, err
	}
	db.tree.SkipFileNums(r.HighestNum)
	db.commits.Skip(r.LastSeq)
	db.commits.Publish(db.commits.Last())
	return r, nil
}

// replayBatch applies one batch, unless a table has it already.
func (db *DB) replayBatch(num base.FileNum, payload []byte) error {
	seq, b, err := decodeBatch(payload)
	if err != nil {
		return batchError(num, err)
	}
	last := seq + base.Seq(b.count) - 1
	// A batch is flushed as a whole, so one number of it in a table is enough;
	// a compaction may have dropped those behind.
	if b.count == 0 || uint64(seq) <= db.flusher.flushedSeq.Load() {
		return nil
	}
	if seq <= db.lastReplayed() {
		return base.Corruption(base.LogName(num), -1, "batch",
			fmt.Errorf("sequence number %d comes again", seq))
	}
	v := db.view.Load()
	if v.mem.Taken() >= db.opts.MemtableSize && !v.mem.Empty() {
		db.view.freeze(db.newMemtable)
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

// batchError names the log of a batch that could not be decoded. Its bytes have
// passed the record's checksum, so an unknown kind of operation is a newer
// program's, not damage.
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

func (db *DB) newMemtable() *memtable.Memtable {
	return memtable.New(memtable.Options{Size: db.opts.MemtableSize, Hasher: db.hasher, Pool: db.memory})
}

// beginLog starts a log of our own that names the newest recovered one. A
// recovered memtable that is large, or made of many logs, is queued for
// flushing.
func (db *DB) beginLog(h wal.Header) error {
	v := db.view.Load()
	if db.logs.Count() > maxKeptLogs || v.mem.Taken() > db.opts.MemtableSize/2 {
		db.view.freeze(db.newMemtable)
	}
	if err := db.logs.Begin(h); err != nil {
		return err
	}
	if db.view.Load().mem.Empty() {
		db.view.setLog(db.logs.CurrentNum())
	}
	db.forgetRecovered()
	return nil
}

// forgetRecovered lets the recovered logs go if all their writes are in tables.
// Otherwise a store that is opened, read and closed again and again would keep
// one more log each time. sweepDir removes the files. If the manifest can't be
// told, the logs stay.
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

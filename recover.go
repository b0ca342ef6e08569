package shale

import (
	"errors"
	"fmt"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// maxKeptLogs is the number of logs up to which a recovered memtable stays in
// memory instead of being flushed: programs that open, write little and close
// should not make a table each time, nor replay ever more logs.
const maxKeptLogs = 8

// recovered is what replayLogs found.
type recovered struct {
	last    wal.Result // of the newest log
	lastNum base.FileNum
}

// replayLogs puts the writes of the live logs back into memtables, in order.
// It checks that none is missing and that each is whole as far as it is known
// to have been synced.
func (db *DB) replayLogs(state *manifest.State) (recovered, error) {
	var r recovered
	nums, err := db.liveLogs(state)
	if err != nil {
		return r, err
	}
	nums, headers, err := db.usedLogs(state, nums)
	if err != nil {
		return r, err
	}
	results := make([]wal.Result, len(nums))
	lengths := make([]int64, len(nums)) // as known beforehand, or -1
	for i, num := range nums {
		lengths[i] = sealedLength(state, num)
		if i+1 < len(nums) && headers[i+1].Prev == num {
			lengths[i] = headers[i+1].PrevLen
		}
		if results[i], err = db.replayLog(num, lengths[i]); err != nil {
			return r, missingIsDamage(err, base.LogName(num))
		}
		r.last, r.lastNum = results[i], num
		// Whether a checkpoint shares the file, or this is the checkpoint, was
		// known only to the handle that made it.
		db.logs.live = append(db.logs.live, logFile{num: num, sealed: results[i].Sealed, linked: true})
	}
	db.commits.visible.Store(uint64(db.commits.lastSeq))
	state.Logs = nil
	for i, l := range db.logs.live {
		// From here on these logs end where they were found to end. What
		// stands there was perhaps only in the page cache until now.
		if lengths[i] < 0 {
			if err := db.settleLog(l.num, results[i].Length); err != nil {
				return r, err
			}
		}
		state.Logs = append(state.Logs, manifest.LogInfo{
			Num: l.num, Sealed: true, Length: results[i].Length, LastSeq: results[i].LastSeq,
		})
	}
	return r, nil
}

// usedLogs reads the headers of the logs, and leaves out those whose creation a
// crash met: nothing was written to them. They may stand before used ones, if
// another crash met their removal.
func (db *DB) usedLogs(state *manifest.State, nums []base.FileNum) (used []base.FileNum, headers []wal.Header, err error) {
	unused := make(map[base.FileNum]error)
	for _, num := range nums {
		h, err := wal.ReadHeader(db.fs, db.dir, num, db.storeID)
		switch {
		case errors.Is(err, wal.ErrNeverUsed) && !announced(state, num):
			unused[num] = err
			continue
		case err != nil:
			return nil, nil, missingIsDamage(err, base.LogName(num))
		case unused[h.Prev] != nil:
			return nil, nil, unused[h.Prev] // it was complete when this log was made
		case h.Prev >= state.MinLog && h.Prev > 0 && !slices.Contains(used, h.Prev):
			return nil, nil, base.Corruption(base.LogName(h.Prev), -1, "log before "+base.LogName(num), errors.New("missing"))
		}
		used, headers = append(used, num), append(headers, h)
	}
	return used, headers, nil
}

// settleLog makes durable the first length bytes of a log that an earlier
// process wrote. A sync alone would not do: if one has failed before, the
// system has marked the pages clean, shows them to us, and would not write
// them. So they are written again.
func (db *DB) settleLog(num base.FileNum, length int64) error {
	if db.opts.ReadOnly {
		return nil
	}
	f, err := db.fs.OpenReadWrite(db.path(base.LogName(num)))
	if err != nil {
		return err
	}
	if err = rewrite(f, length); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rewrite writes the first length bytes of a file as they are.
func rewrite(f vfs.File, length int64) error {
	buf := make([]byte, min(length, 256<<10))
	for off := int64(0); off < length; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), length-off)]
		if n, err := f.ReadAt(buf, off); n < len(buf) {
			return fmt.Errorf("read %d of %d bytes at %d: %w", n, len(buf), off, err)
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			return err
		}
	}
	return nil
}

// liveLogs lists the logs that hold writes which no table has: those that the
// manifest knows of, and newer ones that it did not hear of any more.
func (db *DB) liveLogs(state *manifest.State) ([]base.FileNum, error) {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return nil, err
	}
	var nums []base.FileNum
	for _, name := range names {
		if t, n, ok := base.ParseFileName(name); ok && t == base.FileLog && n >= state.MinLog {
			nums = append(nums, n)
			db.tree.nextFileNum = max(db.tree.nextFileNum, n+1)
		}
	}
	for _, l := range state.Logs {
		if l.Num >= state.MinLog && !slices.Contains(nums, l.Num) {
			return nil, base.Corruption(base.LogName(l.Num), -1, "log named by the manifest", errors.New("missing"))
		}
	}
	slices.Sort(nums)
	return nums, nil
}

func announced(state *manifest.State, num base.FileNum) bool {
	return slices.ContainsFunc(state.Logs, func(l manifest.LogInfo) bool { return l.Num == num })
}

// sealedLength returns the length that the manifest states for the log, or -1.
func sealedLength(state *manifest.State, num base.FileNum) int64 {
	for _, l := range state.Logs {
		if l.Num == num && l.Sealed {
			return l.Length
		}
	}
	return -1
}

// replayLog applies the records of one log. length is where the log is known
// to end, or -1.
func (db *DB) replayLog(num base.FileNum, length int64) (wal.Result, error) {
	result, err := wal.Read(db.fs, db.dir, num, db.storeID, wal.ReadOptions{Known: length}, func(payload []byte) error {
		return db.replayBatch(payload, num)
	})
	if err != nil {
		return result, err
	}
	if db.opts.ReadOnly && length < 0 {
		// Its owner may have written the file over, as another log, while it
		// was read: then it ended early, as if torn. It is renamed before.
		if _, err := db.fs.Stat(db.path(base.LogName(num))); err != nil {
			return result, err
		}
	}
	db.commits.lastSeq = max(db.commits.lastSeq, result.LastSeq)
	return result, nil
}

// replayBatch applies one batch, unless a table has it already.
func (db *DB) replayBatch(payload []byte, num base.FileNum) error {
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
	applyBatch(v.mem, b)
	v.mem.EndWrite()
	db.commits.lastSeq = max(db.commits.lastSeq, last)
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
func (db *DB) beginLog(r recovered) error {
	v := db.view.Load()
	if len(db.logs.live) > maxKeptLogs || v.mem.Taken() > db.opts.MemtableSize/2 {
		db.view.freeze(db.newMemtable)
	}
	if err := db.logs.begin(wal.Header{Prev: r.lastNum, PrevLen: r.last.Length, PrevSeq: r.last.LastSeq}); err != nil {
		return err
	}
	if db.view.Load().mem.Empty() {
		db.view.setLog(db.logs.currentNum())
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
	if len(db.logs.live) == 1 || !v.mem.Empty() || len(v.imms) > 0 {
		return
	}
	current := db.logs.live[len(db.logs.live)-1]
	if err := db.tree.appendEdit(&manifest.Edit{MinLog: current.num, LastSeq: db.commits.lastSeq}); err != nil {
		db.events.emit(Event{Kind: EventBackgroundError, Reason: "manifest", Err: err})
		return
	}
	db.logs.live = []logFile{current}
}

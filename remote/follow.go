package remote

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A follower turns what it reads in the bucket into the files that a read-only handle wants. poll
// is its one entry after begin; everything else is called from there.

// A follower makes, in a directory in memory, what a read-only handle of the store needs besides tables:
// CURRENT, a manifest and logs. It feeds them from steps and segments. One goroutine at a time uses it.
//
// What the directory shows is always a prefix of the commits:
//
//  1. The tables of a step have every write up to the highest sequence number in them, which is TableSeq, and
//     every ingestion up to known, the highest number that the step knows of.
//  2. Behind that the logs go on. A record is written to a log only if tables have it, or if nothing can be missing
//     before it: its number is the one after the last; or all numbers in between are up to known, and every log was
//     shipped to its end. Such numbers belong to ingestions, or to writes that have failed. A mark of an
//     ingestion is written if the tables have the ingestion. What stands behind waits in held for the next step.
//  3. What the tables make room for is written to the logs after the manifest with these tables.
type follower struct {
	// Constant.
	b       Bucket
	storeID uint64
	mem     *vfs.Mem
	files   *tablefs.Tables

	most int64 // bytes of logs behind which nothing is read that the newest state does not need

	pinned bool // nothing behind the state's extents may be shown
	chain  *chain.Chain
	stale  bool // the directory lacks what the newest step says

	manifest localManifest
	minLog   uint64 // the first log that the manifest needs

	at       object.Position   // of the next segment to read
	held     []*heldSegment    // segments that were read and not wholly written, in order
	logs     map[uint64][]byte // the header of each log that is needed or held
	tableSeq uint64
	known    uint64
	last     uint64 // everything up to this sequence number is shown
	whole    bool   // the log that was written last has its seal record
	newest   uint64 // the newest log of which something is shown, or was before tables had it; 0: none
	unsure   bool   // a log has ended without one, and nothing was written since: writes may be missing

	seen    uint64    // the highest sequence number that the bucket has, as far as it is known
	written time.Time // when the writer wrote the newest thing that is shown
}

// A heldSegment is the part of a segment that is not in a log yet.
// off and body move on as its records are written to the log.
type heldSegment struct {
	log     uint64
	off     int64 // where body begins in the log
	body    []byte
	ends    bool // the log ends with it
	lastSeq uint64
	written time.Time
}

// fullEvery is after how many segments, when many are read, a follower looks whether there are too many.
// Segments have 8 MiB as a rule, so the limit is passed by 128 MiB at most.
const fullEvery = 16

// newFollower returns a follower whose directory is still empty. begin fills it.
func newFollower(b Bucket, storeID uint64, mem *vfs.Mem, files *tablefs.Tables, most int64) *follower {
	return &follower{b: b, storeID: storeID, mem: mem, files: files, most: most}
}

// followDir is the directory in memory.
const followDir = "db"

// begin makes the directory, with a state in it. It reads all segments that follow.
func (f *follower) begin(ctx context.Context, c *chain.Chain) error {
	f.chain, f.stale = c, true
	if err := f.mem.MkdirAll(followDir); err != nil {
		return err
	}
	f.restart()
	return f.takeStep(ctx)
}

// restart forgets the logs and goes back to the first one that the newest state needs. Their files stay: what is written to
// them again is the same.
func (f *follower) restart() {
	f.held, f.logs = nil, make(map[uint64][]byte)
	f.whole, f.unsure = false, false
	f.at = object.RootPosition
	if len(f.chain.State.Extents) > 0 {
		f.at = object.Position{Log: f.chain.State.Extents[0].Log}
	}
}

// poll applies the steps and segments that are new in the bucket. It makes two GETs if there are none. changed says that the
// handle must advance.
func (f *follower) poll(ctx context.Context) (changed bool, err error) {
	// All steps that are there go into the chain first, and the directory then takes the last one.
	// Nobody need see those in between.
	var damaged error
	for {
		step, err := f.chain.Next(ctx, f.b)
		if errors.Is(err, ErrSnapshotGone) {
			return f.reload(ctx)
		}
		if damaged = err; err != nil || step == nil {
			break
		}
		f.manifest.later(step.Edit)
		f.stale = true
	}
	// Without a step that is damaged, or whose tables are, the logs behind the present one lead on.
	if f.stale && (damaged == nil || object.IsDamage(damaged)) {
		err := f.takeStep(ctx)
		if errors.Is(err, ErrSnapshotGone) {
			return f.reload(ctx)
		}
		changed, damaged = err == nil, errors.Join(damaged, err)
	}
	if damaged != nil && !object.IsDamage(damaged) {
		return changed, damaged
	}
	more, err := f.takeSegments(ctx)
	return changed || more, errors.Join(damaged, err)
}

// reload goes on from the newest state, because the steps after the present one are gone.
func (f *follower) reload(ctx context.Context) (changed bool, err error) {
	c, err := chain.LoadChain(ctx, f.b, f.storeID, 0)
	if err != nil {
		return false, err
	}
	f.chain, f.stale = c, true
	// The edits in between were not read, so the manifest begins again with the whole state.
	f.manifest.restart()
	if err := f.takeStep(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// takeStep makes the directory show the newest state: it gets the tails of new tables first, then the segments up to the end
// of the step's extents, and then changes the manifest. If one of these fails, the directory shows what it did before, and
// the next poll tries again.
func (f *follower) takeStep(ctx context.Context) error {
	state := f.chain.State
	if err := f.files.Learn(ctx, slices.Collect(tablefs.FilesOf(state.Tables.Version))); err != nil {
		return err
	}
	if len(state.Extents) > 0 && f.at.Log < state.Extents[0].Log {
		// The segments in between may be gone, and nobody needs them: their writes are in tables.
		f.restart()
	}
	if err := f.readAhead(ctx); err != nil && (f.pinned || !object.IsDamage(err)) {
		return err // takeSegments reports damage: what is before it can be shown
	}
	// Up to here nothing has changed. The manifest is written before the numbers below it change,
	// so after an error they still say what the directory shows.
	tableSeq := f.inTables()
	minLog := uint64(state.Tables.MinLog)
	if err := f.manifest.write(f.mem, followDir, state, minLog, max(f.last, tableSeq)); err != nil {
		return err
	}
	f.tableSeq, f.known, f.last = tableSeq, max(tableSeq, uint64(state.Tables.LastSeq)), max(f.last, tableSeq)
	f.written = restore.LaterOf(f.written, state.Written)
	f.minLog, f.stale = minLog, false
	return f.admit()
}

// inTables returns a sequence number up to which the tables of the newest state have everything. That of the entries
// alone does not say it, because a compaction sets the numbers of old entries to 0.
func (f *follower) inTables() uint64 {
	s := f.chain.State
	seq := (&restore.Moment{State: s, Step: f.chain.Step}).Reach()
	for _, e := range s.Extents {
		if e.Log < uint64(s.Tables.MinLog) {
			seq = max(seq, e.LastSeq)
		}
	}
	return seq
}

// readAhead reads the segments up to the end of the newest state's extents, many at a time. What follows is
// read by takeSegments.
func (f *follower) readAhead(ctx context.Context) error {
	end := object.ShippedUpTo(f.chain.State)
	if !f.at.Before(end) {
		return nil
	}
	if err := f.readList(ctx); err != nil {
		return err
	}
	if f.at.Before(end) {
		return f.segmentGone(ctx, fs.ErrNotExist)
	}
	return nil
}

var errManyLogs = errors.New("remote: the logs behind the newest step have more bytes than ReaderOptions.MaxLogs: " +
	"nothing newer is shown until the writer publishes a step")

// full reports whether there are too many logs in memory to read more than the newest state needs. What that needs is read
// in any case: without it the Reader could not show the state.
func (f *follower) full() bool {
	if f.at.Before(object.ShippedUpTo(f.chain.State)) {
		return false
	}
	// What is held and what is in the logs both count: both are in memory.
	sum := int64(0)
	for _, h := range f.held {
		sum += int64(len(h.body))
	}
	logs, _ := localdir.LogNumbers(f.mem, followDir) // it is there
	for _, num := range logs {
		if info, err := f.mem.Stat(filepath.Join(followDir, base.LogName(num))); err == nil {
			sum += info.Size
		}
	}
	return sum >= f.most
}

// readList reads the segments from f.at up to the end of what may be shown, or less if there are too many.
func (f *follower) readList(ctx context.Context) error {
	n := 0
	for s, err := range (chain.SegmentList{Bucket: f.b, StoreID: f.storeID}).From(ctx, f.at) {
		if err != nil {
			return f.segmentGone(ctx, err) // what is before it can be shown
		}
		f.hold(s.Segment)
		if n++; n%fullEvery == 0 && f.full() || f.pinned && !f.at.Before(object.ShippedUpTo(f.chain.State)) {
			return nil
		}
	}
	return nil
}

// segmentGone returns the error for a segment of the newest state that is not there: damage, or ErrSnapshotGone if the
// state is not kept any more.
// A follower at a pin has no other state to go on from, so for it a segment that is missing is
// always damage.
func (f *follower) segmentGone(ctx context.Context, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.chain.CheckFloor(ctx, f.b); err != nil && !f.pinned {
		return err
	}
	return base.Corruption(f.at.String(), -1, "segment named by a step", tablefs.ErrNoObject)
}

// takeSegments reads the segments that have come, and writes to the logs what may be shown. It reads none while
// some wait for a step. If there are more than a few, it reads the rest many at a time.
func (f *follower) takeSegments(ctx context.Context) (changed bool, err error) {
	before := f.last
	for n := 1; len(f.held) == 0; n++ {
		s, err := chain.ReadSegment(ctx, f.b, f.storeID, f.at)
		if errors.Is(err, fs.ErrNotExist) {
			if !f.at.Before(object.ShippedUpTo(f.chain.State)) {
				break
			}
			err = f.segmentGone(ctx, err)
		}
		if err == nil && f.full() {
			f.seen, err = max(f.seen, s.LastSeq), errManyLogs
		}
		if err != nil {
			return f.last != before, err
		}
		f.hold(s)
		// After four single requests with an answer the Reader is likely to be far behind. The rest
		// comes many at a time.
		if n >= 4 {
			err = f.readList(ctx)
		}
		if errors.Is(err, ErrSnapshotGone) {
			err = nil // the next look decides about a segment that was listed and is not there
		}
		if err := errors.Join(f.admit(), err); err != nil {
			return f.last != before, err
		}
	}
	return f.last != before, nil
}

// view returns what feeds have to know of the state that is shown.
func (f *follower) view() feedView { return feedView{f.last, f.newest, f.minLog, f.at} }

// hold takes a segment that stands at f.at.
// Its body belongs to the follower from then, and is freed when all of it is in a log.
func (f *follower) hold(s *object.Segment) {
	f.at = object.AfterSegment(s)
	if s.Offset == 0 && len(s.Body) > 0 {
		// The header is copied, so that the body of the first segment can be freed as soon as it is
		// in the log.
		f.logs[s.Log] = bytes.Clone(s.Body[:object.LogHeader])
	}
	if f.logs[s.Log] == nil {
		return // the anchor of an epoch, which is no log
	}
	f.seen = max(f.seen, s.LastSeq)
	f.held = append(f.held, &heldSegment{s.Log, s.Offset, s.Body, s.Kind != object.SegmentData, s.LastSeq, s.Written})
}

// admit writes the held segments to the logs, up to the first gap. The manifest then says that the tables have every
// ingestion up to the last sequence number, which the handle needs for their marks.
func (f *follower) admit() error {
	err := f.admitHeld()
	return errors.Join(err, f.manifest.note(f.last))
}

// admitHeld writes the held segments to the logs, up to the first gap.
func (f *follower) admitHeld() error {
	for len(f.held) > 0 {
		h := f.held[0]
		if h.log < f.minLog {
			f.newest = max(f.newest, h.log)
			f.held = f.held[1:] // tables have all of this log
			continue
		}
		n, gap, err := f.contiguous(h)
		if err != nil {
			return err
		}
		if n > 0 {
			if err := f.appendLog(h.log, h.off, h.body[:n]); err != nil {
				return err
			}
			f.newest = max(f.newest, h.log)
		}
		// What is in the log now must not be written again when a step lets the rest through.
		h.off, h.body = h.off+n, h.body[n:]
		if gap {
			return nil
		}
		if h.ends {
			f.unsure = f.unsure || !f.whole
			if err := f.manifest.end(h.log, h.off, f.last); err != nil {
				return err
			}
		}
		f.written = restore.LaterOf(f.written, h.written)
		f.held = f.held[1:]
	}
	return nil
}

// errGap ends the walk of contiguous.
var errGap = errors.New("a sequence number is missing")

// contiguous returns how many bytes of a segment may be shown, and sets last to the sequence number up to there. gap
// says that a record behind them may not.
func (f *follower) contiguous(h *heldSegment) (n int64, gap bool, err error) {
	if len(h.body) == 0 {
		return 0, false, nil
	}
	header := f.logs[h.log]
	end := h.off
	prev, length, prevSeq := restore.LogNumbers(header)
	switch {
	case h.off > 0:
	case prev >= f.minLog && prev > 0 && f.manifest.length(prev) < restore.LengthBefore(header):
		// The log before was not shipped, or not to its end: a writer died first, or the first upload of the store's tables
		// is under way. A step comes that has in tables what is in that log.
		if prevSeq != f.last {
			return 0, true, nil
		}
		// But it has no write that is not shown. No step need come, so the log follows the one that is there.
		restore.Relink(header, f.manifest.before(h.log))
		copy(h.body, header)
		f.unsure = true
	case len(f.manifest.open) == 0:
		f.last = max(f.last, prevSeq) // what was written before the first log is in tables
	}
	if f.known < f.tableSeq {
		return 0, false, errors.New("tables beyond the last sequence number")
	}
	// Records are checked, and their numbers looked at, before a byte of them gets into the
	// directory: the handle must never meet a record that may not be shown.
	src := &segmentFS{header: header, at: h.off, body: h.body, least: length}
	result, err := wal.ReadRange(src, "", base.FileNum(h.log), f.storeID, h.off, h.off+int64(len(h.body)), func(payload []byte, to int64) error {
		first, b, err := shale.DecodeBatch(payload)
		if err != nil {
			return err
		}
		if b.Len() > 0 && !f.follows(first, b) {
			return errGap
		}
		end = to
		return nil
	})
	switch {
	case err == errGap:
		return end - h.off, true, nil
	case err != nil:
		return 0, false, object.Damage(object.SegmentName(h.log, h.off), "segment", err)
	}
	f.whole = result.Sealed
	return int64(len(h.body)), false, nil
}

// follows reports whether nothing can be missing before a batch, and takes it if so. Requires: it is not empty.
func (f *follower) follows(first uint64, b *shale.Batch) bool {
	_, _, mark := b.Ingested()
	last := first + uint64(b.Len()) - 1
	switch {
	case first <= f.tableSeq: // tables have it, as a whole
		f.last = max(f.last, last)
		return true
	case first <= f.last: // numbers come again: the store went on from an earlier state
		return false
	case first != f.last+1 && (f.unsure || first-1 > f.known):
		return false
	case mark && first > f.known:
		return false
	}
	f.last, f.unsure = last, false
	return true
}

// appendLog writes a stretch of a log to its file. A log that is new is announced in the manifest after its file is there, so
// that the handle never looks for a file that is missing.
func (f *follower) appendLog(log uint64, off int64, b []byte) error {
	name := filepath.Join(followDir, base.LogName(base.FileNum(log)))
	file, err := f.mem.OpenReadWrite(name)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		file, err = f.mem.Create(name)
	}
	if err != nil {
		return err
	}
	// off is where the stretch before has ended. After restart it is an earlier place, and the
	// bytes are the same.
	_, err = file.WriteAt(b, off)
	if err == nil && made {
		// A file that is shorter than its header says counts as a log that was never used.
		_, length, _ := restore.LogNumbers(b)
		err = file.Preallocate(max(length, int64(len(b))))
	}
	if err = errors.Join(err, file.Close()); err == nil && made {
		err = f.manifest.announce(log)
	}
	return err
}

// clean removes the files that the directory's manifest does not need any more. Requires: the handle has advanced.
func (f *follower) clean() error {
	names, err := f.mem.List(followDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || !(kind == base.FileLog && uint64(num) < f.minLog || kind == base.FileManifest && num < f.manifest.num) {
			continue
		}
		if err := f.mem.Remove(filepath.Join(followDir, name)); err != nil {
			return err
		}
		if kind == base.FileLog {
			delete(f.logs, uint64(num))
		}
	}
	// As long as the directory lacks the newest step, the handle reads tables of the one before.
	// They stay known until then.
	if !f.stale {
		f.files.Know(f.chain.State.Tables.Version)
	}
	return nil
}

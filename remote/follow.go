package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A follower makes, in a directory in memory, what a read-only handle of the store needs besides tables:
// CURRENT, a manifest and logs. It feeds them from steps and segments. One goroutine at a time uses it.
//
// What the directory shows is always a prefix of the commits:
//
//  1. The tables of a step have every write up to the highest sequence number in them, which is tableSeq, and
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
	files   *bucketFiles

	pinned bool // nothing behind the state's extents may be shown
	chain  *chain
	stale  bool // the directory lacks what the newest step says

	dir      string // of the present handle; a rewind begins another one
	dirs     int    // how many there were
	manifest localManifest
	minLog   uint64 // the first log that the manifest needs

	at       place             // of the next segment to read
	held     []*heldSegment    // segments that were read and not wholly written, in order
	logs     map[uint64][]byte // the header of each log that is needed or held
	tableSeq uint64
	known    uint64
	last     uint64 // everything up to this sequence number is shown
	whole    bool   // the log that was written last has its seal record
	unsure   bool   // a log has ended without one, and nothing was written since: writes may be missing

	seen    uint64    // the highest sequence number that the bucket has, as far as it is known
	written time.Time // when the writer wrote the newest thing that is shown
}

// A heldSegment is the part of a segment that is not in a log yet.
type heldSegment struct {
	log     uint64
	off     int64 // where body begins in the log
	body    []byte
	ends    bool // the log ends with it
	lastSeq uint64
	written time.Time
}

// parallelSegments is how many segments are read at the same time when many are to be read.
const parallelSegments = 16

func newFollower(b Bucket, storeID uint64, mem *vfs.Mem, files *bucketFiles) *follower {
	return &follower{b: b, storeID: storeID, mem: mem, files: files}
}

// begin takes over a state, and forgets what the follower has: in a new directory, which is the one of
// another handle. It reads all segments that follow.
func (f *follower) begin(ctx context.Context, c *chain) error {
	f.chain, f.stale = c, true
	f.dirs++
	f.dir = fmt.Sprintf("db-%d", f.dirs)
	f.tableSeq, f.known, f.last, f.seen, f.written = 0, 0, 0, 0, time.Time{}
	if err := f.mem.MkdirAll(f.dir); err != nil {
		return err
	}
	f.manifest.restart()
	f.manifest.open = nil
	f.restart()
	return f.takeStep(ctx)
}

// restart forgets the logs and goes back to the first one that the newest state needs.
func (f *follower) restart() {
	f.held, f.logs = nil, make(map[uint64][]byte)
	f.whole, f.unsure = false, false
	f.at = rootPlace
	if len(f.chain.state.Extents) > 0 {
		f.at = place{log: f.chain.state.Extents[0].Log}
	}
}

// poll takes in what has come to the bucket. It makes two GETs if that is nothing. changed says that the
// handle must advance; after begun it must be replaced by one of the new directory.
func (f *follower) poll(ctx context.Context) (changed, begun bool, err error) {
	rewound := false
	for {
		step, err := f.chain.next(ctx, f.b)
		if errors.Is(err, ErrSnapshotGone) {
			return f.reload(ctx)
		}
		if err != nil {
			return false, false, err
		}
		if step == nil {
			break
		}
		f.manifest.later(step.Edit)
		f.stale = true
		rewound = rewound || step.Kind == StepRewind
	}
	if rewound {
		return true, true, f.begin(ctx, f.chain)
	}
	if f.stale {
		if err := f.takeStep(ctx); err != nil {
			if errors.Is(err, ErrSnapshotGone) {
				return f.reload(ctx)
			}
			return false, false, err
		}
		changed = true
	}
	more, err := f.takeSegments(ctx)
	return changed || more, false, err
}

// reload goes on from the newest state, because the steps after the present one are gone.
func (f *follower) reload(ctx context.Context) (changed, begun bool, err error) {
	c, err := loadChain(ctx, f.b, f.storeID, 0)
	if err != nil {
		return false, false, err
	}
	f.chain, f.stale = c, true
	f.manifest.restart()
	if err := f.takeStep(ctx); err != nil {
		return false, false, err
	}
	return true, false, nil
}

// takeStep makes the newest state that of the directory.
func (f *follower) takeStep(ctx context.Context) error {
	state := f.chain.state
	if err := f.files.learn(ctx, state.Tables.Version); err != nil {
		return err
	}
	if len(state.Extents) > 0 && f.at.log < state.Extents[0].Log {
		// The segments in between may be gone, and nobody needs them: tables have what is in them.
		f.restart()
	}
	if err := f.readAhead(ctx); err != nil {
		return err
	}
	tableSeq := f.inTables()
	minLog := uint64(state.Tables.MinLog)
	if err := f.manifest.write(f.mem, f.dir, state, minLog, max(f.last, tableSeq)); err != nil {
		return err
	}
	f.tableSeq, f.known, f.last = tableSeq, max(tableSeq, uint64(state.Tables.LastSeq)), max(f.last, tableSeq)
	f.written = newer(f.written, state.Written)
	f.minLog, f.stale = minLog, false
	return f.admit()
}

// inTables returns a sequence number up to which the tables of the newest state have everything.
func (f *follower) inTables() uint64 {
	seq := f.chain.state.inTables()
	if f.chain.step != nil {
		seq = max(seq, f.chain.step.LastTableSeq)
	}
	return seq
}

// newer returns the later one of two times.
func newer(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// readAhead reads the segments up to the end of the newest state's extents, many at a time. What follows is
// read by takeSegments.
func (f *follower) readAhead(ctx context.Context) error {
	extents := f.chain.state.Extents
	if len(extents) == 0 {
		return nil
	}
	last := extents[len(extents)-1]
	end := place{last.Log, last.Length}
	if !f.at.before(end) {
		return nil
	}
	for i, p := range f.chain.state.Parents {
		if until := f.chain.state.cloneEnd(i); f.at.before(until) {
			if err := f.readList(ctx, f.files.bucket(p.Below-1), until); err != nil {
				return err
			}
			f.at = until // the list goes on in the next bucket
		}
	}
	until := place{log: maxNum}
	if f.pinned {
		until = end
	}
	if err := f.readList(ctx, f.b, until); err != nil {
		return err
	}
	if f.at.before(end) {
		return f.segmentGone(fmt.Errorf("remote: segment %s: %w", f.at, fs.ErrNotExist))
	}
	return nil
}

// cloneEnd returns where the segments in the bucket of a clone's parent end, as far as the clone has them.
func (s *State) cloneEnd(parent int) (end place) {
	for _, e := range s.Extents {
		if e.Log < s.Parents[parent].Below {
			end = place{e.Log, e.Length}
		}
	}
	return end
}

// readList reads the segments of a bucket from f.at up to a place.
func (f *follower) readList(ctx context.Context, b Bucket, until place) error {
	if !f.at.before(until) {
		return nil
	}
	var infos []segmentInfo
	for info, err := range walkSegments(ctx, b, f.storeID, f.at) {
		if err != nil {
			return f.segmentGone(err)
		}
		if !info.at.before(until) {
			break
		}
		infos = append(infos, info)
	}
	for len(infos) > 0 {
		n := min(len(infos), parallelSegments)
		read, err := f.readMany(ctx, b, infos[:n])
		if err != nil {
			return f.segmentGone(err)
		}
		for _, s := range read {
			f.hold(s)
		}
		infos = infos[n:]
	}
	return nil
}

// segmentGone returns the error for a segment of the newest state that is not there. The state may not be the
// newest any more, and so it is worth another try.
func (f *follower) segmentGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrSnapshotGone, base.Corruption(f.at.String(), -1, "segment named by a step", errNoObject))
	}
	return err
}

// readMany reads segments at the same time.
func (f *follower) readMany(ctx context.Context, b Bucket, infos []segmentInfo) ([]*Segment, error) {
	all := make([]*Segment, len(infos))
	errs := make(chan error, len(infos))
	for i, info := range infos {
		go func() {
			s, err := readSegment(ctx, b, f.storeID, info.at)
			all[i] = s
			errs <- err
		}()
	}
	var err error
	for range infos {
		err = errors.Join(err, <-errs)
	}
	return all, err
}

// takeSegments reads the segments that have come, and writes to the logs what may be shown. It reads none while
// some wait for a step.
func (f *follower) takeSegments(ctx context.Context) (changed bool, err error) {
	before := f.last
	for len(f.held) == 0 {
		s, err := readSegment(ctx, f.b, f.storeID, f.at)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return f.last != before, err
		}
		f.hold(s)
		if err := f.admit(); err != nil {
			return f.last != before, err
		}
	}
	return f.last != before, nil
}

// hold takes a segment that stands at f.at.
func (f *follower) hold(s *Segment) {
	f.at = s.after()
	if s.Offset == 0 && len(s.Body) > 0 {
		f.logs[s.Log] = bytes.Clone(s.Body[:logHeader])
	}
	if f.logs[s.Log] == nil {
		return // the anchor of an epoch, which is no log
	}
	f.seen = max(f.seen, s.LastSeq)
	f.held = append(f.held, &heldSegment{s.Log, s.Offset, s.Body, s.Kind != SegmentData, s.LastSeq, s.Written})
}

// admit writes what is held to the logs, up to the first gap. The manifest then says that the tables have every
// ingestion up to the last sequence number, which the handle needs for their marks.
func (f *follower) admit() error {
	err := f.admitHeld()
	return errors.Join(err, f.manifest.note(f.last))
}

// admitHeld writes what is held to the logs, up to the first gap.
func (f *follower) admitHeld() error {
	for len(f.held) > 0 {
		h := f.held[0]
		if h.log < f.minLog {
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
		}
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
		f.written = newer(f.written, h.written)
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
	_, length, prevSeq := logNumbers(header)
	if h.off == 0 && len(f.manifest.open) == 0 {
		f.last = max(f.last, prevSeq) // what was written before the first log is in tables
	}
	if f.known < f.tableSeq {
		return 0, false, errors.New("tables beyond the last sequence number")
	}
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
		return 0, false, damage(SegmentName(h.log, h.off), "segment", err)
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
	case first <= f.last: // the writer has gone back: a step says so
		return false
	case first != f.last+1 && (f.unsure || first-1 > f.known):
		return false
	case mark && first > f.known:
		return false
	}
	f.last, f.unsure = last, false
	return true
}

// logNumbers returns from the header of a log the number of the log before it, the length in bytes that its file has at
// least, and the last sequence number before it (docs/FORMAT.md, section 3). The header is not checked: wal.ReadRange
// does that. Requires: the header is whole.
func logNumbers(header []byte) (prev uint64, length int64, prevSeq uint64) {
	le := binary.LittleEndian
	return le.Uint64(header[40:]), min(int64(le.Uint64(header[32:])&(1<<62-1)), maxReserve), le.Uint64(header[56:])
}

// maxReserve is the longest file, in bytes, that a log without a record gets. New logs reserve 64 KiB at most.
const maxReserve = 64 << 20

// appendLog writes a stretch of a log to its file.
func (f *follower) appendLog(log uint64, off int64, b []byte) error {
	name := filepath.Join(f.dir, base.LogName(base.FileNum(log)))
	file, err := f.mem.OpenReadWrite(name)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		file, err = f.mem.Create(name)
	}
	if err != nil {
		return err
	}
	_, err = file.WriteAt(b, off)
	if err == nil && made {
		// A file that is shorter than its header says counts as a log that was never used.
		_, length, _ := logNumbers(b)
		err = file.Preallocate(max(length, int64(len(b))))
	}
	if err = errors.Join(err, file.Close()); err == nil && made {
		err = f.manifest.announce(log)
	}
	return err
}

// clean removes the files that the directory's manifest does not need any more. Requires: the handle has advanced.
func (f *follower) clean() error {
	names, err := f.mem.List(f.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		kind, num, ok := base.ParseFileName(name)
		if !ok || !(kind == base.FileLog && uint64(num) < f.minLog || kind == base.FileManifest && num < f.manifest.num) {
			continue
		}
		if err := f.mem.Remove(filepath.Join(f.dir, name)); err != nil {
			return err
		}
		if kind == base.FileLog {
			delete(f.logs, uint64(num))
		}
	}
	f.files.know(f.chain.state.Tables.Version)
	return nil
}

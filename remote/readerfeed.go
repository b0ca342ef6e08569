package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sort"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/wal"
)

// This file has Reader.Changes, the feed of the logs in the bucket.

// Changes yields each commit after number after, in order, and waits for more until ctx is done, as shale.DB.Changes
// does. It shows what the Reader shows, so all of it is in the bucket, and looks for more when the Reader does. It ends
// with an error in any case. If that is one of the bucket, the program goes on behind the last change later.
//
// The bucket has the logs of the states that it keeps ([Options.Retain]). If they do not reach back to after, or a log
// is collected before it was read, the error is shale.ErrChangesGone. It is that too if writes came into the bucket in
// tables and not in logs: what a writer had not shipped when it ended without Close, or what it had to let go.
//
// The numbers are those of the writer. So a program next to the writer whose logs do not reach back far enough may read
// here, and then go on with Changes of the store.
//
// Before the first change it makes a request of 4 KiB for each log since after, one after the other: at most as many as
// the bucket keeps. Then it reads up to 64 MiB ahead. While it reads the keys of an ingestion from tables, ctx may end
// it only after [ReaderOptions.Patience].
func (r *Reader) Changes(ctx context.Context, after uint64) iter.Seq2[shale.Change, error] {
	return func(yield func(shale.Change, error) bool) {
		ctx, cancel := r.untilClose(ctx)
		defer cancel()
		f := &readerFeed{r: r, ctx: ctx, yield: yield, seq: after, headers: make(map[uint64]wal.Header)}
		err := f.run()
		switch {
		case err == errLeft:
			return
		case r.ctx.Err() != nil:
			err = shale.ErrClosed
		case ctx.Err() != nil:
			err = base.ContextError(ctx)
		}
		yield(shale.Change{}, readerError("changes", err))
	}
}

// A readerFeed is one loop over Reader.Changes. It runs on the program's goroutine.
//
// The list of segments may have logs that are not the store's past: a writer lost its machine and tables that its logs
// need, and its successor goes on before them. Each log names the one before it. So the feed goes back from the newest log
// that the Reader shows (route), and then reads the logs that it has met, each up to where the next one says that it ends.
//
// It goes from a log to the next by the rules of logset.Feed, or ends: see join.
type readerFeed struct {
	r     *Reader
	ctx   context.Context
	yield func(shale.Change, error) bool

	seq     uint64                // what has this number or a lower one was passed on, or was before the beginning
	shown   feedView              // by the Reader, when the feed has looked last
	headers map[uint64]wal.Header // of logs from the present one up, as far as they were read

	log     feedLog         // the one that is read; its number is 0 before the first one
	header  []byte          // the first bytes of that log
	at      object.Position // of the next segment
	end     int64           // the log was read up to here
	last    base.Seq        // the last number that the log has up to there
	unknown bool            // the log does not say which number comes first

	sureEpoch, sure uint64 // the writer of that epoch has published all up to this number
}

// A feedLog is a log on the way to what the Reader shows. It is doubtful if the next writer has not shipped any log that would
// say where those of this one end: it had nothing to flush when it began, and died before it wrote. That may be before an
// ingestion, or a missing number, for which tables were lost, unless a step of this writer says that its tables and logs
// have all up to there (sure).
type feedLog struct {
	wal.Header
	doubtful bool
}

// A feedView says what the logs have of the state that a Reader shows.
type feedView struct {
	seq    uint64          // the last number that is shown
	newest uint64          // the newest log of which something is shown, or was before tables had it; 0: none
	minLog uint64          // the first log that the state needs
	at     object.Position // behind the segments that were read
}

// unproven reports whether a writer has published that has no log in the bucket yet.
func (v feedView) unproven() bool {
	return object.Position{Log: v.minLog}.Epoch() > object.Position{Log: v.newest}.Epoch()
}

var (
	errLeft = errors.New("remote: the loop was left")
	errWait = errors.New("remote: the Reader does not show the next change")
	errCut  = errors.New("remote: the rest of the log was given up")
)

// run yields changes until something ends the feed.
func (f *readerFeed) run() error {
	if f.seq > f.r.Seq() {
		if err := f.r.Refresh(f.ctx); err != nil {
			return err
		}
	}
	if last := f.r.Seq(); f.seq > last {
		return fmt.Errorf("%w: the newest write has number %d, and changes are asked for after %d", shale.ErrReplaced, last, f.seq)
	}
	for {
		f.r.mu.Lock()
		changed := f.r.changed
		f.shown = f.r.view
		f.r.mu.Unlock()
		if err := f.pass(); err != nil && err != errWait {
			return err
		}
		select {
		case <-changed:
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
	}
}

// pass passes on what there is, as far as the Reader shows it.
func (f *readerFeed) pass() error {
	logs, err := f.route()
	if err != nil || len(logs) == 0 {
		return err
	}
	if logs[0].Num != f.log.Num {
		f.begin(logs[0])
	}
	f.log.doubtful = logs[0].doubtful
	for s, err := range (chain.SegmentList{Bucket: f.r.b, StoreID: f.r.storeID}).From(f.ctx, f.at) {
		if errors.Is(err, fs.ErrNotExist) {
			return f.missing(f.at, logs[1:])
		}
		if err != nil {
			return err
		}
		switch {
		case s.Log == uint64(f.log.Num):
		case len(logs) == 1:
			return nil // the Reader does not show it
		case s.Log == uint64(logs[1].Num):
			logs = logs[1:]
			if err := f.join(logs); err != nil {
				return err
			}
		default:
			f.at = s.After() // an anchor, an empty log, or one that is not the store's past
			continue
		}
		if err := f.take(s.Segment, logs[1:]); err != nil {
			return err
		}
		f.at = s.After()
	}
	return nil
}

// route returns the logs that lead to what the Reader shows, from the present one up, or from one that has what comes next.
func (f *readerFeed) route() ([]feedLog, error) {
	var logs []feedLog
	num, doubtful := f.shown.newest, f.shown.unproven()
	for first := f.shown.seq + 1; first > f.seq+1; {
		h, err := f.headerOf(num)
		before, named := uint64(h.Prev), err == nil && h.Prev > 0
		switch {
		case err == nil:
			logs, first = slices.Insert(logs, 0, feedLog{h, doubtful}), uint64(h.PrevSeq)+1
			if h.Num == f.log.Num {
				return logs, nil
			}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		default:
			if err := f.noLog(num, logs); err != nil {
				return nil, err
			}
		}
		if !named && first > f.seq+1 {
			// Nothing of the log was shipped, or it names none because the one before it was given up.
			if before, err = f.logBefore(num); err != nil {
				return nil, err
			}
			if before == 0 {
				return nil, f.gone(f.firstOf(logs))
			}
		}
		if (object.Position{Log: before}).Epoch() != (object.Position{Log: num}).Epoch() {
			doubtful = !named
		}
		num = before
	}
	return logs, nil
}

// headerOf returns the header of a log. If the bucket does not have it, the error wraps fs.ErrNotExist.
func (f *readerFeed) headerOf(num uint64) (wal.Header, error) {
	if h, ok := f.headers[num]; ok {
		return h, nil
	}
	h, err := chain.Twice(func() (wal.Header, error) { return f.readHeader(num) })
	if err == nil {
		f.headers[num] = h
	}
	return h, err
}

// readHeader reads the header of a log.
func (f *readerFeed) readHeader(num uint64) (wal.Header, error) {
	name := object.SegmentName(num, 0)
	src := make([]byte, object.SegmentHeader+object.LogHeader)
	n, err := f.r.b.ReadAt(f.ctx, name, src, 0)
	switch {
	case err != nil && err != io.EOF:
		return wal.Header{}, err
	case n == object.SegmentHeader: // a seal: nothing of the log was shipped
		return wal.Header{}, fmt.Errorf("remote: %s has no log: %w", name, fs.ErrNotExist)
	}
	h, err := wal.Identify(&segmentFS{body: src[object.SegmentHeader:]}, "", base.FileNum(num))
	if err == nil && (h.Num != base.FileNum(num) || h.StoreID != f.r.storeID) {
		err = fmt.Errorf("it is log %d of store %016x", h.Num, h.StoreID)
	}
	if err != nil {
		return wal.Header{}, object.Damage(name, "log header", err)
	}
	return h, nil
}

// logBefore returns the newest log below number num that has a header in the bucket; 0: there is none.
func (f *readerFeed) logBefore(num uint64) (before uint64, err error) {
	for back := uint64(64); before == 0; back *= 64 {
		from := num - min(num, back)
		for info, err := range f.r.b.List(f.ctx, object.SegmentFolder, object.LogFolder(from)) {
			name, ok := object.ParseName(info.Name)
			if err != nil || ok && name.Num >= num {
				if err != nil {
					return 0, err
				}
				break
			}
			if ok && name.Offset == 0 && info.Size > object.SegmentHeader {
				before = name.Num
			}
		}
		if from == 0 {
			break
		}
	}
	return before, nil
}

// begin makes h the log that is read.
func (f *readerFeed) begin(h feedLog) {
	f.log, f.at = h, object.Position{Log: uint64(h.Num)}
	f.end, f.last = 0, h.PrevSeq
	f.seq = max(f.seq, uint64(h.PrevSeq))
	f.unknown = h.Prev == 0 && h.PrevSeq == 0
	for num := range f.headers {
		if num < uint64(h.Num) {
			delete(f.headers, num)
		}
	}
}

// join goes on with the first of logs, if nothing is missing between that and the one that was read. Nothing is if it
// names that one and all that it states of its length was read; a log of another session also states the number of an
// ingestion whose mark a crash has taken. Else the number before it must have been passed on.
func (f *readerFeed) join(logs []feedLog) error {
	next := logs[0]
	whole := next.Prev == f.log.Num && f.end >= next.PrevLen && (next.Session == f.log.Session || f.last >= next.PrevSeq)
	if !whole && f.seq < uint64(next.PrevSeq) {
		return f.gone(f.firstOf(logs))
	}
	f.begin(next)
	return nil
}

// take passes on what a segment of the log has. The logs behind that are later.
func (f *readerFeed) take(s *object.Segment, later []feedLog) error {
	if s.Offset == 0 && len(s.Body) > 0 {
		f.header = bytes.Clone(s.Body[:object.LogHeader])
	}
	to := s.End()
	if len(later) > 0 && later[0].Prev == f.log.Num {
		to = min(to, later[0].PrevLen)
	}
	if to <= s.Offset {
		return nil
	}
	_, least, _ := restore.LogNumbers(f.header)
	src := &segmentFS{header: f.header, at: s.Offset, body: s.Body, least: least}
	var stop error // the feed's own reason to end
	result, err := wal.ReadRange(src, "", f.log.Num, f.r.storeID, s.Offset, to, func(payload []byte, _ int64) error {
		first, b, err := shale.DecodeBatch(payload)
		if err != nil {
			return err
		}
		stop = f.batch(first, b, later)
		return stop
	})
	f.end, f.last = max(f.end, result.Length), max(f.last, result.LastSeq)
	switch {
	case stop == errCut:
		return nil
	case stop != nil:
		return stop
	case err != nil:
		return object.Damage(s.Name(), "segment", err)
	}
	return nil
}

// batch passes on the next batch of the log, unless its turn has not come.
func (f *readerFeed) batch(first uint64, b *shale.Batch, later []feedLog) error {
	last := first + uint64(b.Len()) - 1
	_, _, mark := b.Ingested()
	missing := first > f.seq+1
	switch {
	case len(later) > 0 && later[0].Prev == 0 && last > uint64(later[0].PrevSeq):
		return errCut
	case last > f.shown.seq:
		return errWait
	case f.log.doubtful && last > f.seq && (mark || missing):
		sure, err := f.sureOf(object.Position{Log: uint64(f.log.Num)}.Epoch())
		switch {
		case err != nil:
			return err
		case first <= sure:
		case f.shown.unproven():
			return errWait // the new writer's log will say more
		default:
			return f.gone(f.firstOf(later))
		}
	case f.unknown && missing:
		return f.gone(first)
	}
	f.unknown = false
	if last <= f.seq {
		return nil
	}
	f.seq = last
	for change, err := range shale.ChangesOf(b, f.scan) {
		switch {
		case f.ctx.Err() != nil:
			return f.ctx.Err()
		case err != nil:
			return err
		case !f.yield(change, nil):
			return errLeft
		}
	}
	return nil
}

// scan walks the entries of a range, as the Reader shows them.
func (f *readerFeed) scan(rg shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		s, err := f.r.Snapshot(f.ctx)
		if err != nil {
			yield(shale.Entry{}, err)
			return
		}
		defer s.Close()
		s.Scan(rg)(yield)
	}
}

// sureOf returns the number up to which the tables and the logs of the last step of an epoch have all.
func (f *readerFeed) sureOf(epoch uint64) (uint64, error) {
	if f.sureEpoch == epoch {
		return f.sure, nil
	}
	c, err := chain.LoadChain(f.ctx, f.r.b, f.r.storeID, 0)
	if err != nil {
		return 0, err
	}
	floor, sure := max(c.State.Floor, 1), uint64(0)
	sort.Search(int(c.N()+1-floor), func(i int) bool { // the first step of a later epoch
		var step *object.Step
		if err == nil {
			step, err = chain.ReadStep(f.ctx, f.r.b, f.r.storeID, floor+uint64(i))
		}
		if err == nil && step.Epoch == epoch {
			sure = max(sure, step.LastTableSeq)
		}
		return err != nil || step.Epoch > epoch
	})
	if err == nil {
		f.sureEpoch, f.sure = epoch, sure
	}
	return sure, err
}

// gone returns the error for changes that the logs do not have. From number first up they have all.
func (f *readerFeed) gone(first uint64) error {
	return fmt.Errorf("%w: %w", shale.ErrChangesGone, &logset.GoneError{After: base.Seq(f.seq), First: base.Seq(first)})
}

// firstOf returns the first number from which up the logs are there, and the store's past.
func (f *readerFeed) firstOf(logs []feedLog) uint64 {
	for _, l := range logs {
		if _, err := f.readHeader(uint64(l.Num)); err == nil && !l.doubtful {
			return uint64(l.PrevSeq) + 1
		}
	}
	return f.shown.seq + 1
}

// noLog returns an error if log num, which has no header in the bucket, has more there: it was collected, or has lost
// that.
func (f *readerFeed) noLog(num uint64, later []feedLog) error {
	for info, err := range f.r.b.List(f.ctx, object.LogFolder(num), "") {
		name, ok := object.ParseName(info.Name)
		switch {
		case err != nil:
			return err
		case ok && name.Offset > 0:
			return f.missing(object.Position{Log: num}, later)
		}
		return nil // a seal or a fence: nothing of it was shipped
	}
	return nil
}

// missing returns the error for a segment that is not there: damage, if a state that is kept needs it.
func (f *readerFeed) missing(at object.Position, later []feedLog) error {
	c, err := chain.LoadChain(f.ctx, f.r.b, f.r.storeID, 0)
	kept := uint64(0) // the first log that is kept
	if err == nil && c.State.Floor > 0 {
		if c, err = chain.LoadChain(f.ctx, f.r.b, f.r.storeID, c.State.Floor); err == nil {
			kept = chain.FirstLog(c.State.Extents)
		}
	}
	switch {
	case errors.Is(err, ErrSnapshotGone): // the floor was raised meanwhile
	case err != nil:
		return err
	case at.Log >= kept:
		return base.Corruption(at.String(), -1, "segment", restore.ErrMissing)
	}
	return f.gone(f.firstOf(later))
}

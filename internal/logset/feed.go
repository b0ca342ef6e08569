package logset

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/wal"
)

// A Feed passes on the batches of a store from some number up, in their order, each once and only
// when it is durable and visible. It reads them from the logs. It holds the log that it reads.
//
// The logs of a read-only store are those in its directory, and nobody can hold them. Their writer may remove the log
// that is being read, or use it as another one: then it is gone. How far the newest log is durable is not known.
//
// It leaves out nothing. It goes from a log to the next only if one of these is true:
//
//  1. The next log names this one, and all that it states of its length was read. If another session has
//     begun it, its last sequence number is there too: else it counts an ingestion whose mark a crash has taken.
//  2. The next log names none, because this one was given up: see Resume. It states the last
//     number that was kept of it, and that was passed on. What follows in this log is not passed on.
//  3. The number before the next log was passed on, or was before the beginning.
//
// Otherwise the feed ends with a GoneError. It ends with ErrUndone if it has passed on, of a read-only store, what the
// writer has given up later. A number that is in no batch is not a gap: its write has failed.
//
// One goroutine at a time uses a Feed.
type Feed struct {
	logs     *Set
	env      FeedEnv
	readOnly bool

	log     *wal.RangeReader // nil: there is none yet
	num     base.FileNum     // of log
	end     int64            // log was read up to here
	last    base.Seq         // the last number that log has up to there
	unknown bool             // log does not say which number comes first

	limit base.Seq // the number that was visible when the feed has looked last

	seq base.Seq // what has this number or a lower one was passed on, or was before the beginning
}

// A FeedEnv is what a Feed needs from the store.
type FeedEnv struct {
	StoreID uint64
	Visible func() base.Seq // the last number that readers may see
	// Decode returns the first and the last number of a batch.
	Decode func(log base.FileNum, payload []byte) (first, last base.Seq, err error)
	// Pass takes the batch that was decoded last. An error ends the feed.
	Pass func() error
}

// A GoneError says that the logs do not have what a feed has to pass on next.
type GoneError struct {
	After base.Seq // what comes after this number is missing
	First base.Seq // from this number up they have all
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("after number %d, the first number there is is %d", e.After, e.First)
}

// NewFeed returns a Feed that begins with the first batch above number after. The caller closes it.
func (l *Set) NewFeed(env FeedEnv, after base.Seq) (*Feed, error) {
	f := &Feed{logs: l, env: env, readOnly: l.Current() == nil, seq: after}
	first := env.Visible() + 1
	nums, err := f.there(0)
	if err != nil {
		return nil, err
	}
	for _, num := range slices.Backward(nums) {
		log, err := f.open(num)
		switch {
		case err != nil:
			return nil, err
		case log == nil:
			continue
		case log.Header().PrevSeq <= after:
			f.begin(log)
			return f, nil
		}
		first = log.Header().PrevSeq + 1
		f.close(log)
	}
	if first == after+1 { // there is no log, as in a checkpoint, and nothing that one would have
		return f, nil
	}
	return nil, &GoneError{after, first}
}

// open opens log num and holds it. It returns nil if the log is not there any more, or was never used.
func (f *Feed) open(num base.FileNum) (*wal.RangeReader, error) {
	l := f.logs
	if f.readOnly {
		// The file of a log to come may have all of another one, which OpenRanges would search.
		if _, begun, err := wal.Begun(l.env.FS, l.env.Dir, num); err != nil || !begun {
			return nil, err
		}
	} else if !l.holdOne(num) {
		return nil, nil
	}
	log, err := wal.OpenRanges(l.env.FS, l.env.Dir, num, f.env.StoreID)
	if err == nil {
		return log, nil
	}
	f.release(num)
	if errors.Is(err, wal.ErrNeverUsed) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, err
}

// close closes a log that open has returned.
func (f *Feed) close(log *wal.RangeReader) {
	_ = log.Close() // only read: nothing to lose
	f.release(log.Header().Num)
}

func (f *Feed) release(num base.FileNum) {
	if !f.readOnly {
		f.logs.Release([]base.FileNum{num})
	}
}

// there returns the numbers above num of the logs that are there, in their order.
func (f *Feed) there(num base.FileNum) (nums []base.FileNum, err error) {
	if !f.readOnly {
		return f.logs.there(num), nil
	}
	names, err := f.logs.env.FS.List(f.logs.env.Dir)
	for _, name := range names {
		if t, n, ok := base.ParseFileName(name); ok && t == base.FileLog && n > num {
			nums = append(nums, n)
		}
	}
	slices.Sort(nums)
	return nums, err
}

// begin makes log the one that is read.
func (f *Feed) begin(log *wal.RangeReader) {
	h := log.Header()
	f.log, f.num, f.end, f.last = log, h.Num, 0, h.PrevSeq
	f.seq = max(f.seq, h.PrevSeq)
	// The first log of a store. Earlier programs have written this also after a log that was given up.
	f.unknown = h.Prev == 0 && h.PrevSeq == 0
}

// Close ends the feed.
func (f *Feed) Close() {
	if f.log != nil {
		f.close(f.log)
		f.log = nil
	}
}

// Next passes on what there is. It returns when there is no more for now. hidden says that all that is visible was
// passed on, or that the next batch is durable and not visible yet: then the caller waits for more to be visible, and
// otherwise for more to be durable. After an error the feed can only be closed.
func (f *Feed) Next() (hidden bool, err error) {
	hidden, err = f.pass()
	return hidden || f.seq >= f.limit, err
}

// pass is Next, but hidden says only that the next batch is not visible yet.
func (f *Feed) pass() (hidden bool, err error) {
	for {
		// In this order: what becomes visible after a log was given up is not in that log.
		limit := f.env.Visible()
		f.limit = limit
		if w := f.logs.Current(); w != nil && w.Num() == f.num {
			return f.read(w.Synced(), limit)
		}
		next, err := f.next()
		switch {
		case err != nil:
			return false, err
		case next == nil && f.readOnly && f.log != nil:
			return f.readToEnd(limit)
		case next == nil:
			return false, nil
		}
		if hidden, err := f.finish(next.Header(), limit); hidden || err != nil {
			f.close(next)
			return hidden, err
		}
		f.Close()
		f.begin(next)
	}
}

// next opens the log after the one that is read, or returns nil if there is none.
func (f *Feed) next() (*wal.RangeReader, error) {
	nums, err := f.there(f.num)
	if err != nil {
		return nil, err
	}
	for _, num := range nums {
		if log, err := f.open(num); log != nil || err != nil {
			return log, err
		}
	}
	return nil, nil
}

// finish passes on the rest of the log up to number limit, and makes sure that next goes on where it ends.
func (f *Feed) finish(next wal.Header, limit base.Seq) (hidden bool, err error) {
	if f.readOnly && next.Prev != f.num && f.seq > next.PrevSeq {
		return false, fmt.Errorf("%w: number %d was passed on, and %s follows number %d", ErrUndone, f.seq, base.LogName(next.Num), next.PrevSeq)
	}
	complete := false
	switch {
	case f.log == nil:
	case next.Prev == f.num:
		if hidden, err = f.read(next.PrevLen, limit); hidden || err != nil {
			return hidden, err
		}
		complete = next.Session == f.log.Header().Session || f.last >= next.PrevSeq
	case next.Prev == 0:
		if hidden, err = f.readToEnd(min(limit, next.PrevSeq)); err != nil || hidden && limit < next.PrevSeq {
			return hidden, err
		}
	}
	if !complete && f.seq < next.PrevSeq {
		return false, &GoneError{f.seq, next.PrevSeq + 1}
	}
	return false, nil
}

// readToEnd is read for a log of which it is not known where it ends. It ends at bytes that are no record.
func (f *Feed) readToEnd(limit base.Seq) (hidden bool, err error) {
	hidden, err = f.read(math.MaxInt64, limit)
	var damage *base.CorruptionError
	if errors.As(err, &damage) {
		err = nil
	}
	return hidden, err
}

// read passes on the batches up to offset to of the log, and up to number limit. hidden says that there is another one.
func (f *Feed) read(to int64, limit base.Seq) (hidden bool, err error) {
	result, err := f.log.Read(f.end, to, func(payload []byte, _ int64) error {
		first, last, err := f.env.Decode(f.num, payload)
		switch {
		case err != nil:
			return err
		case last > limit:
			return ErrStop
		case f.unknown && first > f.seq+1:
			return &GoneError{f.seq, first}
		}
		f.unknown = false
		if last <= f.seq {
			return nil
		}
		f.seq = last
		return f.env.Pass()
	})
	f.end, f.last = max(f.end, result.Length), max(f.last, result.LastSeq)
	switch {
	case err == ErrStop:
		return true, nil
	case err != nil && f.readOnly && f.isGone(err):
		return false, f.gone()
	}
	return false, err
}

// isGone reports whether err, an error of reading the log, comes from its writer, who has given the log up.
func (f *Feed) isGone(err error) bool {
	h, ierr := wal.Identify(f.logs.env.FS, f.logs.env.Dir, f.num)
	return errors.Is(err, wal.ErrAnother) || errors.Is(ierr, fs.ErrNotExist) || ierr == nil && h != f.log.Header()
}

// gone returns the error for a log that is gone before it was read to its end.
func (f *Feed) gone() error {
	nums, err := f.there(0)
	if err != nil {
		return err
	}
	for _, num := range nums {
		if log, err := f.open(num); log != nil || err != nil {
			if err == nil {
				err = &GoneError{f.seq, log.Header().PrevSeq + 1}
				f.close(log)
			}
			return err
		}
	}
	return &GoneError{f.seq, f.env.Visible() + 1}
}

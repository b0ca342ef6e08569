package logset

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/wal"
)

var (
	// ErrStop is what Apply returns to end Follow before a record, which the next Follow gives
	// to Apply again.
	ErrStop = errors.New("logset: stop here")
	// ErrUndone says that the writer has given up a log, or its end, whose records Follow has
	// passed on. The caller calls StartOver.
	ErrUndone = errors.New("logset: a log was given up")
)

// A tail says how far the logs of another process were read.
type tail struct {
	num    base.FileNum // 0: none was read, or nothing needs those that were
	result wal.Result
	judged int64    // where bytes that are no record were judged: see follower.read; 0: nowhere
	torn   int64    // where the last Follow has found a record that is not whole; 0: nowhere
	seq    base.Seq // the highest number in the logs before
}

// Follow goes on where Replay or the last Follow has ended: it calls Apply for each record that
// the process which owns the logs has appended since. state is what its manifest says now. It
// is for read-only stores. One goroutine at a time calls it.
//
// A log below state.MinLog is left where it is: what was not read of it is in tables. The log
// that is still written ends at bytes that are no whole record. That is where the next Follow
// begins. Records that were passed on are not passed on again, also after an error.
//
// Follow opens the current log, and reads a few bytes of it if there is nothing new. It lists
// the directory only if the manifest does not say which log comes after one that is sealed.
func (l *Set) Follow(state *manifest.State, opts ReplayOptions) error {
	f := follower{Set: l, state: state, opts: opts}
	err := f.run()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = slices.DeleteFunc(l.live, func(f logFile) bool { return f.num < state.MinLog })
	return err
}

// LastSeq returns the highest number that Replay and Follow have found in the logs since they began,
// or since StartOver. One goroutine at a time calls it and Follow.
func (l *Set) LastSeq() base.Seq { return max(l.tail.seq, l.tail.result.LastSeq) }

// StartOver makes the next Follow begin with the oldest log that is needed.
func (l *Set) StartOver() {
	l.tail = tail{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = nil
}

// A follower is the state of one call of Follow.
type follower struct {
	*Set
	state *manifest.State
	opts  ReplayOptions
}

// run takes the steps of Follow.
func (f *follower) run() error {
	t := &f.tail
	if t.num < f.state.MinLog {
		*t = tail{seq: f.LastSeq()}
	}
	for {
		sealed := t.result.Sealed
		next, known, err := f.next()
		if err != nil {
			return err
		}
		if t.num > 0 {
			if err := f.read(known); err != nil {
				return err
			}
		}
		switch {
		case next > 0:
			*t = tail{num: next, seq: f.LastSeq()}
			f.mu.Lock()
			f.live = append(f.live, logFile{num: next, linked: true})
			f.mu.Unlock()
		case !t.result.Sealed || sealed:
			return nil
		}
		// else the seal has come with this Follow, so there may be another log
	}
}

// next returns the log after the one that was read last, or 0 if there is none yet, and the
// length that is known of the latter, or -1.
func (f *follower) next() (next base.FileNum, known int64, err error) {
	t := &f.tail
	known = -1
	if t.num > 0 {
		known = sealedLength(f.state, t.num)
	}
	for _, log := range f.state.Logs {
		if log.Num > t.num && log.Num >= f.state.MinLog {
			next = log.Num
			break
		}
	}
	var h wal.Header
	switch {
	case next > 0:
		if h, err = f.header(next); err != nil {
			return 0, 0, base.MissingIsDamage(err, base.LogName(next))
		}
	case t.num == 0 || t.result.Sealed || known >= 0:
		if next, h, err = f.unannounced(); err != nil || next == 0 {
			return 0, known, err
		}
	default:
		return 0, known, nil
	}
	switch {
	case t.num > 0 && replacesBroken(f.state, h):
		return 0, 0, errNoPredecessor(h)
	case h.Prev > 0 && h.Prev == t.num:
		known = h.PrevLen
	case h.Prev > t.num && h.Prev >= f.state.MinLog:
		return 0, 0, base.Corruption(base.LogName(h.Prev), -1, "log before "+base.LogName(next), errors.New("missing"))
	}
	return next, known, nil
}

// unannounced looks in the directory for the next log. The manifest names it as a rule, but the
// writer goes on if the manifest can't be written. A file that has not got its header yet is
// none: it was prepared, and may still be that of an older log.
func (f *follower) unannounced() (base.FileNum, wal.Header, error) {
	names, err := f.env.FS.List(f.env.Dir)
	if err != nil {
		return 0, wal.Header{}, err
	}
	var nums []base.FileNum
	for _, name := range names {
		if t, n, ok := base.ParseFileName(name); ok && t == base.FileLog && n >= f.state.MinLog && n > f.tail.num {
			nums = append(nums, n)
		}
	}
	slices.Sort(nums)
	for _, num := range nums {
		if h, err := wal.Identify(f.env.FS, f.env.Dir, num); err == nil && f.fits(h, num) {
			return num, h, nil
		}
	}
	return 0, wal.Header{}, nil
}

// fits reports whether h is the header of log num of the store, as the manifest knows it. A log of
// a session that began after the manifest was read is none of it yet.
func (f *follower) fits(h wal.Header, num base.FileNum) bool {
	session := f.state.SessionOf(num)
	return h.Num == num && h.StoreID == f.opts.StoreID && (session == 0 || h.Session == session)
}

// header reads the header of a log that must be there. Only if it is not that of the log, the
// rest of the file is looked at, for the right error.
func (f *follower) header(num base.FileNum) (wal.Header, error) {
	if h, err := wal.Identify(f.env.FS, f.env.Dir, num); err == nil && f.fits(h, num) {
		return h, nil
	}
	return wal.ReadHeader(f.env.FS, f.env.Dir, num, f.opts.StoreID, f.state.SessionOf(num))
}

// read applies what is new in the current log. known is where the log ends, or -1.
//
// Where no end is known, bytes that are no record are not judged the first time: the writer may
// be at work on a record. If they have not changed when Follow comes again, they are judged, once:
// damage is an error then.
func (f *follower) read(known int64) error {
	t := &f.tail
	at := t.result.Length
	switch {
	case known >= 0 && at > known:
		return fmt.Errorf("%w: %s ends at %d, and was read up to %d", ErrUndone, base.LogName(t.num), known, at)
	case known >= 0 && at == known || t.result.Sealed:
		return nil
	}
	judge := at > 0 && t.torn == at && t.judged != at
	o := wal.FollowOptions{From: t.result, Session: f.state.SessionOf(t.num), Known: known, Judge: judge}
	result, err := wal.Follow(f.env.FS, f.env.Dir, t.num, f.opts.StoreID, o, func(payload []byte) error {
		return f.opts.Apply(t.num, payload)
	})
	if result.Length > 0 {
		t.result = result
	}
	switch {
	case gone(err):
		return fmt.Errorf("%w: %w", ErrUndone, err)
	case errors.Is(err, wal.ErrNeverUsed) && known < 0:
		return nil // the file is shorter than its header says, and has no record yet
	case err == ErrStop:
		return err
	case err != nil:
		return base.MissingIsDamage(err, base.LogName(t.num))
	}
	if judge && result.Length == at {
		t.judged = at
	}
	t.torn = 0
	if result.Torn {
		t.torn = result.Length
	}
	if known < 0 && !result.Sealed {
		// The writer may have begun to use the file as another log: see replay.read.
		if _, err := f.env.FS.Stat(f.path(t.num)); err != nil {
			return base.MissingIsDamage(err, base.LogName(t.num))
		}
	}
	return nil
}

// gone reports whether err says that the log that was read last is not there any more. Then nothing
// needs it any more, or the directory was replaced, or a later session has used its number again. The
// manifest says which logs are needed now.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, wal.ErrAnother) }

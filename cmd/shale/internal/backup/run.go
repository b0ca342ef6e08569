package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// maxLines is how many lines one run begins at most, next to a writer that always removes the logs first.
const maxLines = 3

// errIngested ends an increment before the mark of an ingestion.
var errIngested = errors.New("keys were ingested, and the logs do not have them")

// A Report says what a run has done.
type Report struct {
	Lines   []*Line // those of the folder now
	Begun   int     // how many of them, the newest ones, are new
	Why     error   // why the last one was begun, if it is not the first
	Commits uint64  // in increments
	Bytes   int64   // that were written
	Short   error   // not nil: why what is behind the last base is not there
}

// A run is one call of Run. One goroutine uses it.
type run struct {
	ctx     context.Context
	fs      vfs.FS
	dir, to string
	storeID uint64
	lines   []*Line // those that count
	report  Report
	done    *Progress
}

// Run copies to the folder to what it lacks of the store in dir. If it fails, the folder has what it had,
// and the next run goes on. It writes to p.
func Run(ctx context.Context, fsys vfs.FS, dir, to string, p *Progress) (*Report, error) {
	for _, pair := range [][2]string{{dir, to}, {to, dir}} {
		switch inside, err := vfs.Within(fsys, pair[0], pair[1]); {
		case err != nil:
			return nil, err
		case inside:
			return nil, fmt.Errorf("%s lies inside of %s; name another folder", pair[0], pair[1])
		}
	}
	r := &run{ctx: ctx, fs: fsys, dir: dir, to: to, done: p}
	state, err := r.load()
	if err != nil {
		return nil, err
	}
	r.storeID = state.StoreID
	// Before the lock, whose file must not come into a folder of somebody else.
	if _, _, err := list(fsys, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := fsys.MkdirAll(to); err != nil {
		return nil, fmt.Errorf("make %s: %v", to, err) // not as if the store were missing
	}
	lock, err := fsys.Lock(filepath.Join(to, base.LockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("another backup to %s is under way: %w", to, err)
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close() // nothing is lost with it
	if err := r.run(state); err != nil {
		return nil, err
	}
	r.report.Lines = r.lines
	return &r.report, nil
}

// load reads the manifest of the store. Next to a writer it may be replaced meanwhile.
func (r *run) load() (state *manifest.State, err error) {
	for range 10 {
		if state, err = manifest.Load(r.fs, r.dir); err == nil || manifest.Exists(r.fs, r.dir) != nil {
			return state, err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, err
}

func (r *run) run(state *manifest.State) error {
	var begun []string
	var err error
	if r.lines, begun, err = list(r.fs, r.to); err != nil {
		return err
	}
	again := error(nil) // why the last line ends, if it does
	if n := len(r.lines); n > 0 {
		last := r.lines[n-1]
		if last.state.StoreID != state.StoreID {
			return fmt.Errorf("%s has backups of another store; name another folder", r.to)
		}
		again, err = r.follow(last, false)
		if err != nil || again == nil {
			return err
		}
		r.report.Why = again
	}
	for range maxLines {
		l, err := r.begin(begun)
		if err != nil {
			return err
		}
		begun = nil
		r.lines = append(r.lines, l)
		r.report.Begun++
		again, err = r.follow(l, true)
		if err != nil || again == nil {
			return err
		}
	}
	r.report.Short = again
	return nil
}

// follow adds an increment to l, of what the store has committed since. again is why another line has to
// begin after that. begun says that l was begun just now.
func (r *run) follow(l *Line, begun bool) (again, err error) {
	last := l.last()
	state, logs, err := r.logs()
	switch {
	case err != nil:
		return nil, err
	case len(logs) == 0 && (begun || state.LastSeq == base.Seq(last.Seq) && state.Session() == last.Session):
		return nil, nil
	case len(logs) == 0:
		return errors.New("the store has no logs"), nil
	case !begun && !extends(state, logs, last):
		return errors.New("the store is not at a state that follows the last backup"), nil
	}
	inc := &increment{run: r, line: l}
	defer inc.giveUp()
	err = inc.read()
	var gone *logset.GoneError
	if err == errIngested || errors.As(err, &gone) {
		again, err = err, nil
	}
	if err == nil {
		err = inc.finish()
	}
	return again, err
}

// logs returns a state of the store, and the headers of its logs, in their order. Those that the state needs are all there.
func (r *run) logs() (state *manifest.State, logs []wal.Header, err error) {
	for {
		if state, err = r.load(); err != nil {
			return nil, nil, err
		}
		names, err := r.fs.List(r.dir)
		if err != nil {
			return nil, nil, err
		}
		logs = nil
		for _, name := range names {
			if t, num, ok := base.ParseFileName(name); ok && t == base.FileLog {
				h, begun, err := wal.Begun(r.fs, r.dir, num)
				if err != nil {
					return nil, nil, err
				}
				if begun && h.StoreID == r.storeID {
					logs = append(logs, h)
				}
			}
		}
		// One that was needed may have gone since, but not before another is the oldest one that is.
		now, err := r.load()
		if err != nil {
			return nil, nil, err
		}
		if now.MinLog == state.MinLog && now.Session() == state.Session() {
			return state, logs, missing(state, logs)
		}
	}
}

// missing returns an error if the store needs a log that is none of logs.
func missing(state *manifest.State, logs []wal.Header) error {
	var needed []base.FileNum
	for _, l := range state.Logs {
		needed = append(needed, l.Num)
	}
	for _, h := range logs {
		needed = append(needed, h.Prev)
	}
	for _, num := range needed {
		if num >= max(state.MinLog, 1) && !slices.ContainsFunc(logs, func(h wal.Header) bool { return h.Num == num }) {
			return base.Corruption(base.LogName(num), -1, "log that the store needs", errors.New("missing, or its header is damaged"))
		}
	}
	return nil
}

// extends reports whether the store has all that was read up to point p. Sessions tell whether another
// one has taken its place. Within a session, a log may have been given up (DB.Resume): the next one then says that
// it has fewer of its writes.
func extends(state *manifest.State, logs []wal.Header, p Point) bool {
	for _, h := range logs {
		if p.Log > 0 && h.Num > base.FileNum(p.Log) && h.PrevSeq < base.Seq(p.Seq) {
			return false
		}
	}
	was := &manifest.State{Sessions: []manifest.Session{{ID: p.Session}}}
	return p.Session != 0 && state.Extends(was, base.Seq(p.Seq))
}

// An increment is a log that a run writes.
type increment struct {
	run  *run
	line *Line
	w    *wal.Writer  // nil: there is nothing yet
	last base.Seq     // the last number in it
	log  base.FileNum // the store's log that has this number

	// The batch that was decoded last.
	payload []byte
	end     base.Seq
	from    base.FileNum
	mark    bool // it is the mark of an ingestion
}

// read appends all that the store's logs have after the last point.
func (inc *increment) read() error {
	r := inc.run
	feed, err := logset.New(logset.Env{FS: r.fs, Dir: r.dir}).NewFeed(logset.FeedEnv{
		StoreID: r.storeID,
		Visible: func() base.Seq { return base.MaxSeq },
		Decode:  inc.decode,
		Pass:    inc.pass,
	}, base.Seq(inc.line.Last()))
	if err != nil {
		return err
	}
	defer feed.Close()
	if _, err = feed.Next(); err != nil {
		return err
	}
	return r.judge()
}

// judge returns the damage to the newest log. The feed takes it for the end of what was written. So it may look
// while the program writes, and is damage only if the same bytes are none of a record when they are read again.
func (r *run) judge() error {
	_, logs, err := r.logs()
	if err != nil || len(logs) == 0 {
		return err
	}
	none := func([]byte) error { return nil }
	for length := int64(-1); ; {
		result, err := wal.Read(r.fs, r.dir, logs[len(logs)-1].Num, r.storeID, wal.ReadOptions{Known: -1, Shared: true}, none)
		var damage *base.CorruptionError
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, wal.ErrAnother) || errors.Is(err, wal.ErrNeverUsed):
			return nil
		case !errors.As(err, &damage) || result.Length == length:
			return err
		}
		length = result.Length
	}
}

func (inc *increment) decode(log base.FileNum, payload []byte) (first, last base.Seq, err error) {
	seq, b, err := shale.DecodeBatch(payload)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", base.LogName(log), err)
	}
	_, _, inc.mark = b.Ingested()
	inc.payload, inc.from = payload, log
	inc.end = base.Seq(seq) + base.Seq(b.Len()) - 1
	return base.Seq(seq), inc.end, nil
}

// pass appends the batch that was decoded last.
func (inc *increment) pass() error {
	r, l := inc.run, inc.line
	if err := base.ContextError(r.ctx); err != nil {
		return err
	}
	if inc.mark {
		return errIngested
	}
	if inc.w == nil {
		h := wal.Header{Num: base.FileNum(len(l.Points)), StoreID: r.storeID, PrevSeq: base.Seq(l.Last())}
		if h.Num > 1 {
			h.Prev, h.PrevLen = h.Num-1, l.last().Bytes
		}
		// A run that has failed may have left a file.
		if err := r.fs.Remove(inc.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w, err := wal.Create(h, wal.Options{FS: r.fs, Dir: l.logs(), NoMap: true})
		if err != nil {
			return err
		}
		inc.w = w
	}
	inc.last, inc.log = inc.end, inc.from
	r.report.Commits++
	r.done.Done.Add(int64(len(inc.payload)))
	_, err := inc.w.Append(inc.payload, inc.last)
	return err
}

// finish makes the increment count, if there is one.
func (inc *increment) finish() error {
	r, l := inc.run, inc.line
	if inc.w == nil {
		return nil
	}
	// The manifest has a session before there is a log of it.
	state, err := r.load()
	if err != nil {
		return err
	}
	length, err := inc.w.Seal()
	if err != nil {
		return err
	}
	err, inc.w = inc.w.Close(), nil
	if err != nil {
		return err
	}
	r.report.Bytes += length
	return l.add(r.fs, Point{
		Seq: uint64(inc.last), Time: now(), Bytes: length, Session: state.SessionOf(inc.log), Log: uint64(inc.log),
	})
}

// giveUp closes the log of an increment that does not count. The next run removes it.
func (inc *increment) giveUp() {
	if inc.w != nil {
		_ = inc.w.Close()                 // it does not count
		_ = inc.run.fs.Remove(inc.path()) // best effort, for a disk that is full
	}
}

func (inc *increment) path() string {
	return filepath.Join(inc.line.logs(), base.LogName(base.FileNum(len(inc.line.Points))))
}

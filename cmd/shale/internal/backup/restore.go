package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// workName is the folder in the new store's folder in which it is made. Its files move up when it is
// complete, so what is interrupted leaves no store that opens.
const workName = "restoring"

// errStop ends a feed behind the moment.
var errStop = errors.New("behind the moment")

// A Moment says what to restore. The zero value is the newest commit.
type Moment struct {
	Seq  *uint64   // the commit with this last number
	Time time.Time // or what the newest run up to this time has found
}

// find returns the newest line with a moment, and the number of its commit.
func (m Moment) find(lines []*Line) (*Line, uint64, error) {
	newest := lines[len(lines)-1]
	switch {
	case m.Seq != nil:
		for _, l := range slices.Backward(lines) {
			if l.First() <= *m.Seq && *m.Seq <= l.Last() {
				return l, *m.Seq, nil
			}
		}
		var near []uint64
		for _, l := range lines {
			near = append(near, l.First(), l.Last())
		}
		return nil, 0, notThere(*m.Seq, near)
	case !m.Time.IsZero():
		for _, l := range slices.Backward(lines) {
			for _, p := range slices.Backward(l.Points) {
				if !p.Time.After(m.Time) {
					return l, p.Seq, nil
				}
			}
		}
		return nil, 0, fmt.Errorf("the oldest backup is that of %s", lines[0].Points[0].Time.Format(time.RFC3339))
	}
	return newest, newest.Last(), nil
}

// notThere returns the error for a number after which there is no moment. near are the numbers of some moments.
func notThere(seq uint64, near []uint64) error {
	var below, above *uint64
	for _, n := range near {
		if n < seq && (below == nil || n > *below) {
			below = &n
		}
		if n > seq && (above == nil || n < *above) {
			above = &n
		}
	}
	err := fmt.Errorf("no commit that ends with number %d can be restored", seq)
	if below != nil {
		err = fmt.Errorf("%w; the nearest before it is %d", err, *below)
	}
	if above != nil {
		err = fmt.Errorf("%w; the nearest after it is %d", err, *above)
	}
	return err
}

// Restored says what Restore has done.
type Restored struct {
	Seq     uint64 // of the last commit
	Commits uint64 // from increments
	Tables  int
	Lines   []*Line
}

// Restore makes a store in dir, which must be empty or not exist, of what the folder from has up to a
// moment. It reads and checks all of the new store. It writes to p.
func Restore(ctx context.Context, fsys vfs.FS, from, dir string, m Moment, p *Progress) (*Restored, error) {
	lines, err := Lines(fsys, from)
	if err != nil {
		return nil, err
	}
	l, seq, err := m.find(lines)
	if err != nil {
		return nil, err
	}
	switch inside, err := vfs.Within(fsys, dir, from); {
	case err != nil:
		return nil, err
	case inside:
		return nil, fmt.Errorf("%s lies inside of %s; name another folder", dir, from)
	}
	switch names, err := fsys.List(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case slices.Contains(names, workName):
		return nil, fmt.Errorf("%s has the rest of a restore that was interrupted; remove it first", dir)
	case len(names) > 0:
		return nil, fmt.Errorf("%s is not empty; name another folder", dir)
	}
	// Before anything is written: increments are read twice.
	if err := l.upTo(ctx, fsys, seq, func(*shale.Batch) error { return nil }); err != nil {
		return nil, l.damaged(err)
	}
	r := &restoring{ctx: ctx, fs: fsys, line: l, dir: dir, done: Restored{Seq: seq, Lines: lines}, progress: p}
	if err := r.restore(); err != nil {
		r.giveUp()
		return nil, l.damaged(err)
	}
	return &r.done, nil
}

// each calls fn for the batches of the increments, with the last number of each, until fn returns an error.
func (l *Line) each(ctx context.Context, fsys vfs.FS, fn func(b *shale.Batch, last uint64) error) error {
	if len(l.Points) == 1 {
		return nil
	}
	var b *shale.Batch
	var last base.Seq
	feed, err := logset.New(logset.Env{FS: fsys, Dir: l.logs()}).NewFeed(logset.FeedEnv{
		StoreID: l.state.StoreID,
		Visible: func() base.Seq { return base.Seq(l.Last()) },
		Decode: func(log base.FileNum, payload []byte) (base.Seq, base.Seq, error) {
			first, batch, err := shale.DecodeBatch(payload)
			if err != nil {
				return 0, 0, base.Corruption(base.LogName(log), -1, "batch", err)
			}
			b, last = batch, base.Seq(first)+base.Seq(batch.Len())-1
			return base.Seq(first), last, nil
		},
		Pass: func() error {
			if err := base.ContextError(ctx); err != nil {
				return err
			}
			return fn(b, uint64(last))
		},
	}, base.Seq(l.First()))
	if err == nil {
		defer feed.Close()
		_, err = feed.Next()
	}
	var gone *logset.GoneError
	if errors.As(err, &gone) {
		err = base.Corruption(l.dir, -1, "increments", err)
	}
	return err
}

// upTo calls fn for the batches of the increments up to number seq, and makes sure that this is the last number of one.
func (l *Line) upTo(ctx context.Context, fsys vfs.FS, seq uint64, fn func(b *shale.Batch) error) error {
	reached := l.First()
	err := l.each(ctx, fsys, func(b *shale.Batch, last uint64) error {
		switch {
		case last <= seq:
			reached = last
			return fn(b)
		case reached < seq:
			return notThere(seq, []uint64{reached, last})
		}
		return errStop
	})
	switch {
	case err != nil && err != errStop:
		return err
	case reached < seq:
		// The feed takes damage at the end of the last log for the end.
		return base.Corruption(l.dir, -1, "increments", fmt.Errorf("they end with number %d, before %d", reached, seq))
	}
	return nil
}

// A restoring is one call of Restore. One goroutine uses it.
type restoring struct {
	ctx  context.Context
	fs   vfs.FS
	line *Line
	dir  string
	done Restored

	progress *Progress
}

func (r *restoring) work() string { return filepath.Join(r.dir, workName) }

func (r *restoring) restore() error {
	if err := r.fs.MkdirAll(r.work()); err != nil {
		return err
	}
	if err := r.lay(); err != nil {
		return err
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.moveUp()
}

// lay copies the base. It gets a session of its own: so a later backup to the same folder, and readers, see that
// the store is not where it was.
func (r *restoring) lay() error {
	state := *r.line.state
	r.progress.begin(&state)
	defer r.progress.All.Store(0)
	for t := range state.Version.Tables() {
		names := []string{base.TableName(t.Num)}
		if t.Sidecar != nil {
			names = append(names, base.FilterName(t.Sidecar.Num))
		}
		for i, name := range names {
			if err := base.ContextError(r.ctx); err != nil {
				return err
			}
			err := durable.Copy(r.fs, filepath.Join(r.line.dir, name), filepath.Join(r.work(), name))
			if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
				return base.MissingIsDamage(err, filepath.Join(r.line.dir, name))
			}
		}
		r.done.Tables++
		r.progress.Done.Add(t.Size)
	}
	state.BeginSession(rand.Uint64()|1, state.NextFileNum)
	num := state.NextFileNum
	state.NextFileNum++
	log, err := manifest.Create(r.fs, r.work(), num, &state)
	if err != nil {
		return err
	}
	return log.Close()
}

// play applies the increments, and reads the store to check it.
func (r *restoring) play() (err error) {
	db, err := shale.Open(r.work(), &shale.Options{
		FS: r.fs, Exist: shale.MustExist, Durability: shale.SyncManual,
		OnEvent: func(shale.Event) {}, // Verify returns what is damaged
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	b := new(shale.Batch)
	err = r.line.upTo(r.ctx, r.fs, r.done.Seq, func(change *shale.Batch) error {
		b.Reset()
		for op := range change.Ops() {
			if err := b.Add(op); err != nil {
				return err
			}
		}
		r.done.Commits++
		r.progress.Done.Add(int64(b.Size()))
		return db.Write(r.ctx, b)
	})
	if err != nil {
		return err
	}
	if err := db.Flush(r.ctx); err != nil {
		return err
	}
	return db.Verify(r.ctx)
}

// moveUp makes the store that of the folder. CURRENT comes last.
func (r *restoring) moveUp() error {
	names, err := r.fs.List(r.work())
	if err != nil {
		return err
	}
	move := func(name string) error {
		return r.fs.Rename(filepath.Join(r.work(), name), filepath.Join(r.dir, name))
	}
	for _, name := range names {
		if name != base.CurrentName {
			if err := move(name); err != nil {
				return err
			}
		}
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	if err := move(base.CurrentName); err != nil {
		return err
	}
	return errors.Join(r.fs.Remove(r.work()), r.fs.SyncDir(r.dir))
}

// giveUp removes what was made. It is a best effort: the caller has an error to report already.
func (r *restoring) giveUp() {
	_ = r.fs.Remove(filepath.Join(r.dir, base.CurrentName)) // first, so that no part of a store opens
	_ = clear(r.fs, r.work(), nil)
	_ = r.fs.Remove(r.work())
	_ = clear(r.fs, r.dir, nil)
	_ = r.fs.Remove(r.dir)
}

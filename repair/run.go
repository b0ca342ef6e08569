package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Run saves what is provably correct in the store in dir. It writes that into a new store
// in the folder into. That folder must be empty or missing, and must not be inside dir.
// With [Options.Doubtful] it takes doubtful entries too. The caller owns the report.
//
// Damage is in the report. An error says why Run could not save: it wraps
// fs.ErrNotExist if dir holds no store, shale.ErrElsewhere if tables of it are elsewhere (see [Options.GiveUp]), shale.ErrLocked if a program has it open for
// writing, shale.ErrFormatTooNew if a newer version wrote it, vfs.ErrEncrypted if the
// key of a file is missing or wrong, and fs.ErrExist if into is not empty. After an
// error, Run leaves nothing in into. After a crash there may be a part of the new store.
//
// Run takes these steps: it locks writers out, reads the manifest and the folder (look),
// reads the logs and judges them (plan), and then merges all tables and commits into the
// new store, which it reads back (save).
func Run(ctx context.Context, dir, into string, opts *Options) (*Report, error) {
	o := opts.withDefaults()
	made, err := checkInto(o.FS, dir, into)
	if err != nil {
		return nil, err
	}
	// The program may change its working directory meanwhile.
	if dir, err = absolute(o.FS, dir); err != nil {
		return nil, err
	}
	if into, err = absolute(o.FS, into); err != nil {
		return nil, err
	}
	lock, err := keepOut(o.FS, dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // the store was only read
	// From here on no writer changes the store, unless locks cannot be shared: see keepOut.
	s, err := look(ctx, newSource(o), dir, o.GiveUp)
	if err != nil {
		return nil, err
	}
	r := &Report{Doubtful: o.Doubtful, GivenUp: len(s.given)}
	for _, t := range s.given {
		r.GivenUpBytes += t.Size
	}
	if s.state != nil {
		r.Manifest = base.ManifestName(s.state.ManifestNum)
	}
	m, err := r.plan(s)
	if err == nil {
		err = r.save(ctx, o.FS, into, m)
	}
	if err != nil {
		discard(o.FS, into, made)
		return nil, err
	}
	for _, l := range m.left {
		r.Left = append(r.Left, *l)
	}
	r.Findings = s.findings
	return r, nil
}

// checkInto returns an error if into cannot take a store. made reports that into
// does not exist yet.
func checkInto(fsys vfs.FS, dir, into string) (made bool, err error) {
	switch inside, err := vfs.Within(fsys, into, dir); {
	case err != nil:
		return false, fmt.Errorf("repair: %w", err)
	case inside:
		return false, fmt.Errorf("repair: %s is inside of %s", into, dir)
	}
	info, err := fsys.Stat(into)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("repair: %w", err)
	case !info.IsDir:
		return false, fmt.Errorf("repair: %s: %w", into, fs.ErrExist)
	}
	// A folder with any file is refused: it may be a store, or of use to somebody.
	names, err := fsys.List(into)
	if err == nil && len(names) > 0 {
		err = fs.ErrExist
	}
	if err != nil {
		return false, fmt.Errorf("repair: %s is not empty: %w", into, err)
	}
	return false, nil
}

// absolute returns a name of dir that does not depend on the working directory.
func absolute(fsys vfs.FS, dir string) (string, error) {
	dir, err := vfs.Abs(fsys, dir)
	if err != nil {
		return "", fmt.Errorf("repair: %w", err)
	}
	return dir, nil
}

// discard removes what a failed Run has written, and the folder if Run has made it. It
// ignores errors, because Run has one to return already.
func discard(fsys vfs.FS, into string, made bool) {
	names, err := fsys.List(into)
	if err != nil {
		return
	}
	for _, name := range names {
		_ = fsys.Remove(filepath.Join(into, name))
	}
	if made {
		_ = fsys.Remove(into)
	}
}

// plan reads and judges the logs, and returns a merge of everything that the new store may
// take. It fills the part of the report that is known before the merge.
func (r *Report) plan(s *survey) (*merge, error) {
	m := &merge{s: s, doubtful: r.Doubtful, origins: make(map[*base.KV]origin)}
	l, err := readLogs(s, false)
	if err != nil {
		return nil, err
	}
	v := l.judge(s.flushed())
	r.AsOf, r.AtLeast = uint64(v.asOf), !v.exact
	proven, overtaken, err := l.load(v.proven)
	if err != nil {
		return nil, err
	}
	if s.state != nil {
		m.proven.Add(s.state.Version.Spans)
	}
	// Children are added from the newest to the oldest: logs, runs, strays.
	m.addLogs(proven, nil)
	m.leaveOvertaken(l, overtaken)
	if err := m.addLeft(l, v); err != nil {
		return nil, err
	}
	for _, run := range s.runs() {
		m.addRun(run.tables, origin{age: run.age})
	}
	strays := s.strays()
	for _, stray := range strays {
		m.left = append(m.left, stray.left)
		if r.Doubtful {
			stray.left.Entries = 0 // the merge will count those that it takes
		}
	}
	if r.Doubtful {
		m.addStrays(strays)
	}
	s.noteStrays()
	return m, nil
}

// addLeft reports the commits that are not proven, and adds them to the merge if
// they are wanted.
func (m *merge) addLeft(l *logs, v verdict) error {
	for _, it := range v.left {
		st := it.stretch
		left := &Left{
			File: base.LogName(it.log.num), Why: "commits behind a gap",
			Entries: st.entries, Samples: st.samples, Commits: st.commits, FirstSeq: uint64(st.first), LastSeq: uint64(st.last),
		}
		m.left = append(m.left, left)
		if !m.doubtful {
			continue
		}
		// The merge counts those that it takes.
		left.Entries, left.Samples = 0, nil
		e, overtaken, err := l.load([]item{it})
		if err != nil {
			return err
		}
		m.addLogs(e, left)
		m.leaveOvertaken(l, overtaken)
	}
	return nil
}

// leaveOvertaken reports entries of logs that an ingestion may have overtaken. The merge never
// takes them: by their numbers they would hide what was ingested. The tables had them too. If there
// is a manifest, its tables have them, or what is newer, or damage in place of that, so nothing is
// left out.
func (m *merge) leaveOvertaken(l *logs, e *entries) {
	if l.s.state != nil || len(e.list) == 0 {
		return
	}
	left := &Left{File: base.LogName(l.marks[len(l.marks)-1].log), Why: "keys that an ingestion may have set later"}
	m.left = append(m.left, left)
	for _, kv := range e.list {
		left.note(kv.UserKey)
	}
}

// batchBytes is about how many bytes are written to the new store at once.
const batchBytes = 1 << 20

// save writes the new store, and then opens and verifies it.
func (r *Report) save(ctx context.Context, fsys vfs.FS, into string, m *merge) error {
	quiet := func(shale.Event) {} // Flush and Close return what fails in the background
	// Nobody relies on the new store before Run returns, so the writes need no fsync. Flush
	// and Close make all of them durable.
	db, err := shale.Open(into, &shale.Options{FS: fsys, Exist: shale.MustNotExist, Durability: shale.SyncManual, OnEvent: quiet})
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	err = r.write(ctx, db, m)
	if err == nil {
		err = db.Flush(ctx)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("repair: write %s: %w", into, err)
	}
	// The new store counts as saved only if all of it can be read. The disk that has
	// damaged the old store may be this one too.
	db, err = shale.Open(into, &shale.Options{FS: fsys, ReadOnly: true, Exist: shale.MustExist, OnEvent: quiet})
	if err != nil {
		return fmt.Errorf("repair: read back: %w", err)
	}
	if err = errors.Join(db.Verify(ctx), db.Close()); err != nil {
		return fmt.Errorf("repair: read back %s: %w", into, err)
	}
	return nil
}

// write runs the merge, and puts its keys into db in batches.
func (r *Report) write(ctx context.Context, db *shale.DB, m *merge) error {
	b, now := new(shale.Batch), time.Now()
	flush := func() error {
		err := db.Write(ctx, b)
		b.Reset()
		return err
	}
	err := m.run(func(op shale.Op) error {
		if op.ExpiresAt.IsZero() || op.ExpiresAt.After(now) {
			r.Keys++
			r.KeyBytes += int64(len(op.Key))
			r.ValueBytes += int64(len(op.Value))
		}
		if b.Len() > 0 && b.Size()+len(op.Key)+len(op.Value) > batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		return b.Add(op)
	})
	if err != nil {
		return err
	}
	return flush()
}

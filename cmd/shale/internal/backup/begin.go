package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// This file has how a run makes the base of a line.

// begin makes a line with a base. begun are lines that earlier runs have not completed: the tables of one of the
// same session are used.
func (r *run) begin(begun []string) (*Line, error) {
	num := uint64(1)
	if n := len(r.lines); n > 0 {
		num = r.lines[n-1].Number + 1
	}
	state, seq, err := r.settled()
	if err != nil {
		return nil, err
	}
	l := &Line{Number: num, dir: filepath.Join(r.to, lineName(num, state.Session()))}
	for _, name := range begun {
		dir := filepath.Join(r.to, name)
		if dir == l.dir {
			continue
		}
		_ = r.fs.Remove((&Line{dir: dir}).logs()) // it may not be there; else the folder can't be removed
		if err := errors.Join(clear(r.fs, dir, nil), r.fs.Remove(dir)); err != nil {
			return nil, err
		}
	}
	if err := r.fs.MkdirAll(l.logs()); err != nil {
		return nil, err
	}
	bytes := int64(0)
	for {
		n, err := r.copy(l, state)
		bytes += n
		if err == nil {
			break
		}
		// Next to a writer, a table may be compacted before it is copied.
		was := state
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		next, nextSeq, lerr := r.settled()
		if lerr != nil || next.ManifestNum == was.ManifestNum && next.Length == was.Length || next.Session() != was.Session() {
			if was.Elsewhere != "" {
				return nil, fmt.Errorf("%w: some may be in %s: %v", base.ErrElsewhere, was.Elsewhere, err)
			}
			return nil, errors.Join(base.MissingIsDamage(err, r.dir), lerr)
		}
		state, seq = next, nextSeq
	}
	return l, r.commit(l, state, seq, bytes)
}

// settled returns a state of the store, and the number up to which its tables have all commits, and no others.
func (r *run) settled() (state *manifest.State, seq base.Seq, err error) {
	state, logs, err := r.logs()
	if err != nil {
		return nil, 0, err
	}
	seq = state.Flushed
	for t := range state.Version.Tables() {
		seq = max(seq, t.MaxSeq)
	}
	// What is before the oldest log that is needed is in tables. Without such a log, everything is.
	if i := slices.IndexFunc(logs, func(h wal.Header) bool { return h.Num >= state.MinLog }); i < 0 {
		seq = max(seq, state.LastSeq)
	} else {
		seq = max(seq, logs[i].PrevSeq)
	}
	return state, seq, nil
}

// copy copies the tables of state that l lacks, and returns how many bytes that were. Those of an earlier line
// get a second name.
func (r *run) copy(l *Line, state *manifest.State) (bytes int64, err error) {
	r.done.begin(state)
	defer r.done.All.Store(0)
	names := []string{filepath.Base(l.logs())}
	for t := range state.Version.Tables() {
		names = append(names, base.TableName(t.Num))
		n, err := r.copyFile(l, state, base.TableName(t.Num), t.Num, t.Size)
		if bytes += n; err != nil {
			return bytes, err
		}
		r.done.Done.Add(t.Size)
		if t.Sidecar == nil {
			continue
		}
		names = append(names, base.FilterName(t.Sidecar.Num))
		n, err = r.copyFile(l, state, base.FilterName(t.Sidecar.Num), t.Sidecar.Num, t.Sidecar.Size)
		// Without its sidecar, a table is opened with the filter that it has itself.
		if bytes += n; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return bytes, err
		}
	}
	return bytes, clear(r.fs, l.dir, names)
}

// copyFile copies a file of the store that never changes, or finds it in the folder.
func (r *run) copyFile(l *Line, state *manifest.State, name string, num base.FileNum, size int64) (int64, error) {
	if err := base.ContextError(r.ctx); err != nil {
		return 0, err
	}
	to := filepath.Join(l.dir, name)
	if info, err := r.fs.Stat(to); err == nil && info.Size == size {
		return 0, nil
	}
	// Of one session, a number has one file.
	if n := len(r.lines); n > 0 && state.SessionOf(num) != 0 && r.lines[n-1].state.SessionOf(num) == state.SessionOf(num) {
		from := filepath.Join(r.lines[n-1].dir, name)
		if info, err := r.fs.Stat(from); err == nil && info.Size == size {
			return 0, durable.LinkOrCopy(r.fs, from, to)
		}
	}
	if err := durable.Copy(r.fs, filepath.Join(r.dir, name), to+".tmp"); err != nil {
		return 0, err
	}
	return size, r.fs.Rename(to+".tmp", to)
}

// commit makes the line count.
func (r *run) commit(l *Line, state *manifest.State, seq base.Seq, bytes int64) error {
	if err := r.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.state = state
	num := state.NextFileNum
	state.NextFileNum++
	state.MinLog, state.Logs, state.LastSeq, state.Elsewhere = state.NextFileNum, nil, seq, "" // all tables are here
	log, err := manifest.Create(r.fs, l.dir, num, state)
	if err != nil {
		return err
	}
	if err := errors.Join(log.Finish(), log.Close()); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.to); err != nil {
		return err
	}
	r.report.Bytes += bytes
	return l.add(r.fs, Point{Seq: uint64(seq), Time: now(), Bytes: bytes, Session: state.Session()})
}

// clear removes all files of a directory but those to keep.
func clear(fsys vfs.FS, dir string, keep []string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(keep, name) {
			if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

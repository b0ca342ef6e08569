package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// lay writes the logs, as far as the target wants, and checks that the store is then what was asked for.
func (r *restore) lay(ctx context.Context) error {
	state := r.moment.state
	tables := r.moment.tableSeq()
	start := r.start()
	r.laying = &laying{
		fs: r.fs, dir: r.dir, storeID: r.done.StoreID, limit: r.limit,
		minLog: r.minLog(), tables: tables, known: uint64(state.Tables.LastSeq), sure: r.sure(), seq: tables,
		at: start, time: r.moment.at,
	}
	l := r.laying
	var err error
	if !r.limit.none {
		err = r.segments(ctx, start, l.add)
	}
	if err = errors.Join(err, l.finish()); err != nil {
		return r.damaged(err)
	}
	if l.end.kind == endOfList && l.at.before(r.shipped()) {
		return r.damaged(base.Corruption(l.at.String(), -1, fmt.Sprintf("segment named by step %d", state.N), errMissing))
	}
	l.seq = max(l.seq, r.moment.reach())
	r.done.At = At{Step: state.N, Seq: l.seq, Time: l.time}
	r.done.Logs, r.done.Bytes = len(l.logs), l.bytes
	return r.reached()
}

// sure returns the number up to which the tables and the logs of the moment together have all writes.
func (r *restore) sure() uint64 {
	if r.moment.step == nil { // a pin's state has the LastTableSeq of its step in the manifest
		return uint64(r.moment.state.Tables.LastSeq)
	}
	return r.moment.step.LastTableSeq
}

// minLog returns the number of the first log that is needed. Earlier ones are in tables.
func (r *restore) minLog() uint64 {
	state := r.moment.state
	first := uint64(state.Tables.MinLog)
	if len(state.Extents) > 0 && first == 0 {
		first = state.Extents[0].Log
	}
	return first
}

// start returns where the list of segments is entered: at the first log that is needed, or, if none of
// them was shipped when the step was written, at the last one that was.
func (r *restore) start() place {
	at := rootPlace
	for _, e := range r.moment.state.Extents {
		if at = (place{log: e.Log}); e.Log >= r.minLog() {
			break
		}
	}
	return at
}

// segments calls add for the segments from a place on. What a clone has from its parent comes from
// there.
func (r *restore) segments(ctx context.Context, at place, add func(*Segment) (bool, error)) error {
	for _, p := range r.moment.state.Parents {
		end := place{} // where the clone's own segments begin
		for _, e := range r.moment.state.Extents {
			if e.Log < p.Below {
				end = place{e.Log, e.Length}
			}
		}
		if !at.before(end) {
			continue
		}
		b, err := r.parent(p)
		if err != nil {
			return err
		}
		more, err := r.segmentsOf(ctx, b, at, end, add)
		if err != nil || !more {
			return err
		}
		at = end
	}
	_, err := r.segmentsOf(ctx, r.b, at, place{}, add)
	return err
}

// segmentsOf calls add for the segments of one bucket, up to end if that is a place. It reports whether
// more are wanted.
func (r *restore) segmentsOf(ctx context.Context, b Bucket, at, end place, add func(*Segment) (bool, error)) (more bool, err error) {
	for s, err := range (segmentList{b, r.done.StoreID}).from(ctx, at) {
		if err != nil {
			return false, err
		}
		if more, err := add(s); err != nil || !more {
			return false, err
		}
		if end != (place{}) && !s.after().before(end) {
			break // what follows may have been collected
		}
	}
	return true, nil
}

// damaged returns the error for an object that is damaged or missing, with the nearest good points.
func (r *restore) damaged(err error) error {
	var damage *shale.CorruptionError
	if !errors.As(err, &damage) {
		return err
	}
	e := r.pointError("an object of the bucket can't be used: "+damage.Error(), r.before())
	e.Err = damage
	return e
}

// before returns the point up to which the logs could be used. It may not be as far as the tables are.
func (r *restore) before() *At {
	l := r.laying
	if l.seq == 0 {
		return nil // nothing was written yet
	}
	return &At{Step: r.moment.state.N, Seq: l.seq, Time: l.time}
}

// reached returns nil if the logs end where the target wants it.
func (r *restore) reached() error {
	l := r.laying
	short := l.end.kind != endAtLimit && l.end.kind != endOfList
	switch {
	case short && l.seq == 0:
		return r.pointError("nothing can be restored yet: "+l.end.String(), nil)
	case r.want == At{} && r.opts.Pin == "":
		if short {
			r.done.Left.Why = l.end.String()
		}
		return nil
	case r.want.Seq > 0 && l.seq == r.want.Seq, r.want.Step > 0 && r.want.Seq > 0 && l.seq >= r.want.Seq:
		return nil
	case r.want.Seq > 0 && l.seq > r.want.Seq:
		return r.pointError(fmt.Sprintf("the tables of step %d have all up to %d", r.moment.state.N, l.seq), nil)
	case r.want.Seq > 0 && l.end.kind == endOfList:
		return r.pointError(fmt.Sprintf("the logs in the bucket end at sequence number %d", l.seq), r.before())
	case short:
		return r.pointError(l.end.String(), r.before())
	}
	return nil
}

// leave finds out what the bucket has of later times.
func (r *restore) leave(ctx context.Context) error {
	left := &r.done.Left
	l := r.laying
	left.Steps = r.history.newest - min(r.history.newest, r.moment.state.N)
	if l.rest > 0 {
		left.Segments, left.Bytes, left.LastSeq = 1, l.rest, l.toSeq
	}
	after := logFolder(l.at.log)
	if l.at.off > 0 {
		after = justBefore(l.at)
	}
	var last []place
	for info, err := range r.b.List(ctx, segmentFolder, after) {
		if err != nil {
			return err
		}
		name, ok := ParseName(info.Name)
		if !ok || info.Size <= segmentHeader {
			continue
		}
		left.Segments++
		left.Bytes += info.Size - segmentHeader
		last = []place{{name.Num, name.Offset}}
	}
	for _, at := range last {
		s, _, err := readSegmentHeader(ctx, r.b, r.done.StoreID, at)
		if err == nil {
			left.LastSeq = s.LastSeq
		}
		// Damage there is none to this restore.
	}
	return r.giveUp(ctx)
}

// giveUp finds out whether what the logs have behind the newest point is lost for everybody: it waits for tables that
// the bucket lacks, and who has them may be gone. A store that goes on from here may go on behind all of it.
func (r *restore) giveUp(ctx context.Context) error {
	l := r.laying
	if r.want != (At{}) || r.opts.Pin != "" || l.end.kind != endAtGap && l.end.kind != endBeforeIngest || r.done.Left.LastSeq == 0 {
		return nil
	}
	end := l.next
	for info, err := range walkSegments(ctx, r.b, r.done.StoreID, l.next) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a later owner has collected meanwhile, and Open refuses this directory
		}
		if err != nil {
			return err
		}
		end = info.next
	}
	r.behind = end
	r.done.Left.Lost = true
	return nil
}

// finish makes the store of the files that are there: the manifest, and CURRENT last.
func (r *restore) finish() error {
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	l := r.laying
	state := *r.moment.state.Tables
	state.Logs, state.MinLog = l.logs, base.FileNum(r.minLog())
	// Numbers that are in tables must not be given out again. Without logs, only the manifest knows.
	if len(l.logs) > 0 {
		state.LastSeq = base.Seq(max(l.tables, l.seq))
	}
	if r.behind != (place{}) { // the numbers of what is lost must not be given out again either
		state.LastSeq = max(state.LastSeq, base.Seq(r.done.Left.LastSeq))
	}
	for _, log := range l.logs {
		state.NextFileNum = max(state.NextFileNum, log.Num+1)
	}
	if err := r.note(); err != nil {
		return err
	}
	num := state.NextFileNum
	state.NextFileNum++
	log, err := manifest.Create(r.fs, r.dir, num, &state)
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		// It must not be opened. If CURRENT stays, whoever opens the store finds the same damage.
		return errors.Join(err, r.fs.Remove(r.path(base.CurrentName)), r.fs.SyncDir(r.dir))
	}
	if err := r.fs.Remove(r.path(restoringName)); err != nil {
		return err
	}
	return r.fs.SyncDir(r.dir)
}

// note notes how far the directory has what is in the bucket, so that Open can take the bucket over with
// it. A pin's step may be gone, and then nobody can go on from it in the same bucket.
func (r *restore) note() error {
	step := r.moment.step
	if step == nil {
		return nil
	}
	shipped := r.laying.at
	if r.behind != (place{}) {
		shipped = r.behind
	}
	return writeNotes(r.fs, r.dir, &notes{
		StoreID: r.done.StoreID, Step: step.N, Writer: step.Writer, Epoch: step.Epoch,
		Shipped: shipped, LastSeq: r.laying.seq, Restored: true,
	})
}

// check opens the store and closes it again, without a change of its files.
func (r *restore) check() error {
	if r.laying.bytes > checkedLogs {
		return nil
	}
	db, err := shale.Open(r.dir, &shale.Options{FS: shyFS{r.fs}, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("the restored store can't be opened: %w", err)
	}
	r.done.Checked = true
	return db.Close()
}

// A shyFS keeps no file of a table open: it opens the file for each read. A store that is opened for
// reading only keeps all of them open, and there may be more than a process may have.
type shyFS struct{ vfs.FS }

func (s shyFS) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	typ, _, ok := base.ParseFileName(filepath.Base(name))
	if err != nil || !ok || typ != base.FileTable && typ != base.FileFilter {
		return f, err
	}
	size, err := f.Size()
	return &shyFile{fs: s.FS, name: name, size: size}, errors.Join(err, f.Close())
}

// A shyFile is a file of a shyFS. Nothing but the methods below is called for a table.
type shyFile struct {
	vfs.File
	fs   vfs.FS
	name string
	size int64
}

func (s *shyFile) ReadAt(p []byte, off int64) (int, error) {
	f, err := s.fs.Open(s.name)
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(p, off)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return n, err
}

func (s *shyFile) Size() (int64, error) { return s.size, nil }
func (s *shyFile) Close() error         { return nil }

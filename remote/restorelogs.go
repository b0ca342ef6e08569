package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
)

// The logs of a restored store, and its end: where the logs begin and stop, whether that is the
// point that was asked for, what is left out, and the files that make a store of the directory.

// lay writes the logs up to the target, and checks that the store then is at the target. LogBuilder decides where the logs
// end; what lay tells it is where the tables end: what they have for certain (Tables), which ingestions they have at least
// (Known), and up to where tables and logs together lack nothing (Sure).
func (r *restoration) lay(ctx context.Context) error {
	state := r.moment.State
	tables := r.moment.TableSeq()
	start := r.start()
	r.builder = &restore.LogBuilder{
		FS: r.fs, Dir: r.dir, StoreID: r.done.StoreID, Limit: r.limit,
		MinLog: r.minLog(), Tables: tables, Known: uint64(state.Tables.LastSeq), Sure: r.sure(), Seq: tables,
		At: start, Time: r.moment.At,
	}
	l := r.builder
	var err error
	if !r.limit.None {
		err = r.segments(ctx, start, l.Add)
	}
	// A list that ends before the place that the step names has lost segments. Without this check
	// they would pass for writes that were never shipped.
	if err == nil && l.End.Kind == restore.AtEndOfList && l.At.Before(object.ShippedUpTo(r.goal.State)) {
		err = base.Corruption(l.At.String(), -1, fmt.Sprintf("segment named by step %d", r.goal.State.N), restore.ErrMissing)
	}
	if err = errors.Join(l.Damaged(err), l.Finish()); err != nil {
		return err
	}
	// The step knows of writes in tables that no log shows, because their log is not needed or was
	// let go.
	l.Seq = max(l.Seq, r.moment.Reach())
	r.done.At = At{Step: state.N, Seq: l.Seq, Time: l.Time}
	r.done.Logs, r.done.Bytes = len(l.Logs), l.Bytes
	return r.reached()
}

// sure returns the number up to which the tables and the logs of the moment together have all writes.
// Above it a gap in the logs may hide a write that was acknowledged. Up to it a number that is
// missing belongs to a write that has failed.
func (r *restoration) sure() uint64 {
	switch {
	case r.moment.Step != nil:
		return r.moment.Step.LastTableSeq
	case r.opts.Pin != "": // a pin's state has the LastTableSeq of its step in the manifest
		return uint64(r.moment.State.Tables.LastSeq)
	}
	return r.moment.TableSeq()
}

// minLog returns the number of the first log that is needed. Earlier ones are in tables.
// A state without MinLog has no tables yet, and needs all logs from the first one that was shipped.
func (r *restoration) minLog() uint64 {
	state := r.moment.State
	first := uint64(state.Tables.MinLog)
	if len(state.Extents) > 0 && first == 0 {
		first = state.Extents[0].Log
	}
	return first
}

// start returns where the list of segments is entered: at the first log that is needed, or, if none of
// them was shipped when the step was written, at the last one that was.
func (r *restoration) start() object.Position {
	at := object.RootPosition
	for _, e := range r.moment.State.Extents {
		if at = (object.Position{Log: e.Log}); e.Log >= r.minLog() {
			break
		}
	}
	return at
}

// segments calls add for each segment from a place on, until add returns false.
// A segment that is collected during the walk counts as missing; explain then finds out whether the
// floor has risen.
func (r *restoration) segments(ctx context.Context, at object.Position, add func(*object.Segment) (bool, error)) error {
	for s, err := range (chain.SegmentList{Bucket: r.b, StoreID: r.done.StoreID}).From(ctx, at) {
		if err != nil {
			return restore.IfMissing(err, at.String(), "segment")
		}
		if more, err := add(s.Segment); err != nil || !more {
			return err
		}
		// at serves the error only: it names the segment that is missing.
		at = s.After()
	}
	return nil
}

// before returns the point up to which the logs could be used: the nearest one before a target that is refused.
func (r *restoration) before() *At {
	l := r.builder
	if l.Seq == 0 {
		return nil // nothing was written yet
	}
	return &At{Step: r.moment.State.N, Seq: l.Seq, Time: l.Time}
}

// reached returns nil if the logs end where the target wants it. The newest point is wherever they end, and
// then Left.Why says why that is not the end of the list. Any other target that is not reached exactly is
// refused, with the nearest points. Promote needs all that was shipped, so it refuses logs that end in damage
// even as the newest point.
func (r *restoration) reached() error {
	l := r.builder
	wanted := r.want.Step
	if r.newest() {
		wanted = r.history.Newest
	}
	// short says that the store lacks something that the target has, or may have. At the limit and
	// at the end of the list there is nothing more to have. The cases below find what the logs do
	// not show: tables of the goal that were passed by, and a newer step that can't be read.
	short, why := l.End.Kind != restore.AtLimit && l.End.Kind != restore.AtEndOfList, l.End.String()
	switch {
	case short:
	case l.Seq < r.goal.Reach():
		short, why = true, fmt.Sprintf("the tables of step %d, not all of which can be used, go on up to sequence number %d", r.goal.State.N, r.goal.Reach())
	case r.goal.State.N < wanted:
		short, why = true, fmt.Sprintf("step %d can't be read, and may have more", wanted)
	}
	switch {
	case short && l.Seq == 0:
		return r.pointError("nothing can be restored yet: "+why, nil)
	case r.newest() && (r.opts.warm == nil || l.End.Kind != restore.AtDamage):
		if short {
			r.done.Left.Why = why
		}
		return nil
	case r.want.Seq > 0 && l.Seq == r.want.Seq, r.want.Step > 0 && r.want.Seq > 0 && l.Seq >= r.want.Seq:
		return nil
	case r.want.Seq > 0 && l.Seq > r.want.Seq:
		return r.pointError(fmt.Sprintf("the tables of step %d have all up to %d", r.moment.State.N, l.Seq), nil)
	case r.want.Seq > 0 && l.End.Kind == restore.AtEndOfList:
		return r.pointError(fmt.Sprintf("the logs in the bucket end at sequence number %d", l.Seq), r.before())
	case short:
		return r.pointError(why, r.before())
	}
	return nil
}

// newest reports whether the newest point was asked for.
func (r *restoration) newest() bool { return r.want == At{} && r.opts.Pin == "" }

// leave notes what the bucket has beyond the point that is restored. It reads only a list and one header. Nobody needs these
// objects for the restore, so one that can't be read is no error.
func (r *restoration) leave(ctx context.Context) error {
	left := &r.done.Left
	l := r.builder
	left.Steps = r.history.Newest - min(r.history.Newest, r.moment.State.N)
	// The segment in which the logs were cut counts too, with the bytes behind the cut.
	if l.Rest > 0 {
		left.Segments, left.Bytes, left.LastSeq = 1, l.Rest, l.ToSeq
	}
	var last object.Position
	for info, err := range r.b.List(ctx, object.SegmentFolder, object.JustBefore(l.At)) {
		if err != nil {
			return err
		}
		name, ok := object.ParseName(info.Name)
		if !ok || info.Size <= object.SegmentHeader {
			continue
		}
		left.Segments++
		left.Bytes += info.Size - object.SegmentHeader
		last = object.Position{Log: name.Num, Offset: name.Offset}
	}
	if last != (object.Position{}) {
		// A segment that can't be read is behind the point, so this restore does without it.
		if s, err := chain.ReadHead(ctx, r.b, r.done.StoreID, last); err == nil {
			left.LastSeq = s.LastSeq
		}
	}
	if reach := r.goal.Reach(); reach > l.Seq {
		left.LastSeq = max(left.LastSeq, reach)
	}
	return r.giveUp(ctx)
}

// giveUp finds out whether the writes in the logs behind the newest point are lost for everybody: they wait for tables that
// the bucket lacks, and the machine that has these may be gone. A store that goes on from here may go on behind all of them.
func (r *restoration) giveUp(ctx context.Context) error {
	l := r.builder
	// Only a gap or an ingestion says that tables are missing. What stands behind damage may come
	// back when the object is mended, so it is not given up.
	if !r.newest() || len(r.damage()) > 0 || l.End.Kind != restore.AtGap && l.End.Kind != restore.BeforeIngest || r.done.Left.LastSeq == 0 {
		return nil
	}
	// The list is followed to its end: the next writer appends there, and its numbers must be above
	// all in the list.
	end := l.Next
	for s, err := range (chain.SegmentList{Bucket: r.b, StoreID: r.done.StoreID, Heads: true}).From(ctx, l.Next) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a later owner has collected meanwhile, and Open refuses this directory
		}
		if err != nil {
			return err
		}
		end = s.After()
	}
	r.behind = end
	r.done.Left.Lost = true
	return nil
}

// finish makes the store of the files that are there: the manifest, and CURRENT last. All other files are
// durable before that, and so are their names; a crash at any time leaves a directory that is marked, or a
// whole store.
func (r *restoration) finish() error {
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	l := r.builder
	state := *r.moment.State.Tables
	state.Logs, state.MinLog = l.Logs, base.FileNum(r.minLog())
	// Numbers that are in tables must not be given out again. Without logs, only the manifest knows.
	if len(l.Logs) > 0 {
		state.LastSeq = base.Seq(max(l.Tables, l.Seq))
	}
	if r.behind != (object.Position{}) { // the numbers of what is lost must not be given out again either
		state.LastSeq = max(state.LastSeq, base.Seq(r.done.Left.LastSeq))
	}
	// No new file may get the number of a log that came from the bucket.
	for _, log := range l.Logs {
		state.NextFileNum = max(state.NextFileNum, log.Num+1)
	}
	if err := r.note(); err != nil {
		return err
	}
	if r.partial {
		state.Elsewhere = placeOf(r.done.StoreID)
	}
	num := state.NextFileNum
	state.NextFileNum++
	// This writes CURRENT, and with it the directory has a store. All else, the notes too, is there
	// before.
	log, err := manifest.Create(r.fs, r.dir, num, &state)
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		// It must not be opened. If CURRENT stays, the next Open of the store finds the same damage.
		return errors.Join(err, r.fs.Remove(r.path(base.CurrentName)), r.fs.SyncDir(r.dir))
	}
	if err := r.fs.Remove(r.path(restoringName)); err != nil {
		return err
	}
	return r.fs.SyncDir(r.dir)
}

// note writes the notes of the directory: how far it has the contents of the bucket, so that Open can take the bucket over
// with it. There are none after a restore of a pin, whose step may be gone: nobody can go on from it in the
// same bucket. There are none after damage either: the directory may lack writes that the bucket has had, and
// their numbers would be given out again.
func (r *restoration) note() error {
	step := r.moment.Step
	if r.done.Damage = r.damage(); step == nil || len(r.done.Damage) > 0 {
		return nil
	}
	shipped := r.builder.At
	if r.behind != (object.Position{}) {
		shipped = r.behind
	}
	return localdir.WriteRecord(r.fs, r.dir, &localdir.Record{
		StoreID: r.done.StoreID, Step: step.N, Writer: step.Writer, Epoch: step.Epoch,
		Shipped: shipped, LastSeq: r.builder.Seq, Restored: true,
	})
}

// check opens the store and closes it again, without a change of its files. What a restore has missed shows
// here, and not when the store is needed. Large logs are left out, whose records were checked when they were
// written. So is a store that opens only with its bucket: Promote does that next.
func (r *restoration) check() error {
	if r.partial || r.builder.Bytes > checkedLogs || r.opts.Salvage && len(r.done.Damage) > 0 {
		return nil
	}
	db, err := shale.Open(r.dir, &shale.Options{FS: r.fs, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("the restored store can't be opened: %w", err)
	}
	r.done.Checked = true
	return db.Close()
}

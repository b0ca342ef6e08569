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
	"github.com/shaledb/shale/remote/internal/object"
)

// lay writes the logs, as far as the target wants, and checks that the store is then what was asked for.
func (r *restoration) lay(ctx context.Context) error {
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
	if err == nil && l.end.kind == endOfList && l.at.Before(object.ShippedUpTo(r.goal.state)) {
		err = base.Corruption(l.at.String(), -1, fmt.Sprintf("segment named by step %d", r.goal.state.N), errMissing)
	}
	if err = errors.Join(l.damaged(err), l.finish()); err != nil {
		return err
	}
	l.seq = max(l.seq, r.moment.reach())
	r.done.At = At{Step: state.N, Seq: l.seq, Time: l.time}
	r.done.Logs, r.done.Bytes = len(l.logs), l.bytes
	return r.reached()
}

// sure returns the number up to which the tables and the logs of the moment together have all writes.
func (r *restoration) sure() uint64 {
	switch {
	case r.moment.step != nil:
		return r.moment.step.LastTableSeq
	case r.opts.Pin != "": // a pin's state has the LastTableSeq of its step in the manifest
		return uint64(r.moment.state.Tables.LastSeq)
	}
	return r.moment.tableSeq()
}

// minLog returns the number of the first log that is needed. Earlier ones are in tables.
func (r *restoration) minLog() uint64 {
	state := r.moment.state
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
	for _, e := range r.moment.state.Extents {
		if at = (object.Position{Log: e.Log}); e.Log >= r.minLog() {
			break
		}
	}
	return at
}

// segments calls add for each segment from a place on, until add returns false.
func (r *restoration) segments(ctx context.Context, at object.Position, add func(*Segment) (bool, error)) error {
	for s, err := range (chain.SegmentList{Bucket: r.b, StoreID: r.done.StoreID}).From(ctx, at) {
		if err != nil {
			return missing(err, at.String(), "segment")
		}
		if more, err := add(s.Segment); err != nil || !more {
			return err
		}
		at = s.After()
	}
	return nil
}

// before returns the point up to which the logs could be used.
func (r *restoration) before() *At {
	l := r.laying
	if l.seq == 0 {
		return nil // nothing was written yet
	}
	return &At{Step: r.moment.state.N, Seq: l.seq, Time: l.time}
}

// reached returns nil if the logs end where the target wants it.
func (r *restoration) reached() error {
	l := r.laying
	wanted := r.want.Step
	if r.newest() {
		wanted = r.history.newest
	}
	short, why := l.end.kind != endAtLimit && l.end.kind != endOfList, l.end.String()
	switch {
	case short:
	case l.seq < r.goal.reach():
		short, why = true, fmt.Sprintf("the tables of step %d, not all of which can be used, go on up to sequence number %d", r.goal.state.N, r.goal.reach())
	case r.goal.state.N < wanted:
		short, why = true, fmt.Sprintf("step %d can't be read, and may have more", wanted)
	}
	switch {
	case short && l.seq == 0:
		return r.pointError("nothing can be restored yet: "+why, nil)
	case r.newest() && (r.opts.warm == nil || l.end.kind != endAtDamage):
		if short {
			r.done.Left.Why = why
		}
		return nil
	case r.want.Seq > 0 && l.seq == r.want.Seq, r.want.Step > 0 && r.want.Seq > 0 && l.seq >= r.want.Seq:
		return nil
	case r.want.Seq > 0 && l.seq > r.want.Seq:
		return r.pointError(fmt.Sprintf("the tables of step %d have all up to %d", r.moment.state.N, l.seq), nil)
	case r.want.Seq > 0 && l.end.kind == endOfList:
		return r.pointError(fmt.Sprintf("the logs in the bucket end at sequence number %d", l.seq), r.before())
	case short:
		return r.pointError(why, r.before())
	}
	return nil
}

// newest reports whether the newest point was asked for.
func (r *restoration) newest() bool { return r.want == At{} && r.opts.Pin == "" }

// leave notes what the bucket has beyond the point that is restored.
func (r *restoration) leave(ctx context.Context) error {
	left := &r.done.Left
	l := r.laying
	left.Steps = r.history.newest - min(r.history.newest, r.moment.state.N)
	if l.rest > 0 {
		left.Segments, left.Bytes, left.LastSeq = 1, l.rest, l.toSeq
	}
	var last object.Position
	for info, err := range r.b.List(ctx, object.SegmentFolder, object.JustBefore(l.at)) {
		if err != nil {
			return err
		}
		name, ok := ParseName(info.Name)
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
	if reach := r.goal.reach(); reach > l.seq {
		left.LastSeq = max(left.LastSeq, reach)
	}
	return r.giveUp(ctx)
}

// giveUp finds out whether the writes in the logs behind the newest point are lost for everybody: they wait for tables that
// the bucket lacks, and the machine that has these may be gone. A store that goes on from here may go on behind all of them.
func (r *restoration) giveUp(ctx context.Context) error {
	l := r.laying
	if !r.newest() || len(r.damage()) > 0 || l.end.kind != endAtGap && l.end.kind != endBeforeIngest || r.done.Left.LastSeq == 0 {
		return nil
	}
	end := l.next
	for s, err := range (chain.SegmentList{Bucket: r.b, StoreID: r.done.StoreID, Heads: true}).From(ctx, l.next) {
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

// finish makes the store of the files that are there: the manifest, and CURRENT last.
func (r *restoration) finish() error {
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
	if r.behind != (object.Position{}) { // the numbers of what is lost must not be given out again either
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

// note writes the notes of the directory: how far it has the contents of the bucket, so that Open can take the bucket over
// with it. There are none after a restore of a pin, whose step may be gone: nobody can go on from it in the same bucket. There
// are none after damage either: the directory may lack writes that the bucket has had, and their numbers would be given out
// again.
func (r *restoration) note() error {
	step := r.moment.step
	if r.done.Damage = r.damage(); step == nil || len(r.done.Damage) > 0 {
		return nil
	}
	shipped := r.laying.at
	if r.behind != (object.Position{}) {
		shipped = r.behind
	}
	return writeNotes(r.fs, r.dir, &notes{
		StoreID: r.done.StoreID, Step: step.N, Writer: step.Writer, Epoch: step.Epoch,
		Shipped: shipped, LastSeq: r.laying.seq, Restored: true,
	})
}

// check opens the store and closes it again, without a change of its files.
func (r *restoration) check() error {
	if r.laying.bytes > checkedLogs || r.opts.Salvage && len(r.done.Damage) > 0 {
		return nil
	}
	db, err := shale.Open(r.dir, &shale.Options{FS: r.fs, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("the restored store can't be opened: %w", err)
	}
	r.done.Checked = true
	return db.Close()
}

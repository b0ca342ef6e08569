package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// Verify checks a bucket without restoring anything. This file compares names, sizes, steps and
// states; verifydeep.go reads all bytes; verifypoint.go finds the newest point that a restore would
// reach.

// A Report is what Verify has found.
type Report struct {
	StoreID       uint64 // the same in all files and objects of a store
	First, Newest uint64 // the steps that can be restored
	Tables        int    // tables and sidecars that the steps and pins need
	Segments      int    // in the list of segments, from the first that is needed
	Pins          int    // those of readers included
	Bytes         int64  // of all of these
	Point         At     // the newest point that can be restored, as far as the findings show; zero: none

	// Findings are what is wrong. A store without any can be restored to all its points.
	Findings []Finding
	// Leftovers are objects that no step and no pin needs: of a writer that is at work or was
	// interrupted, or what is to be collected. They do no harm.
	Leftovers []Info
}

// A Finding is an Object that is missing, or is not what it should be: Err says what is wrong.
type Finding = restore.Finding

const (
	// verifyTries is how often Verify begins again because objects were collected meanwhile.
	verifyTries = 3
	// verifyTables is how many tables are read at the same time.
	verifyTables = 4
)

// Verify checks that a store in a bucket can be restored: to all steps that are kept, and to all pins.
// It reads the steps, states and pins, and compares the names and sizes of all objects, of which
// a LIST gives 1,000 at a time. If deep is set, it also reads all tables, sidecars and segments, and
// checks every block and every record.
//
// What is wrong is in the Report. An error says that the bucket could not be read. The store may be
// written meanwhile.
func Verify(ctx context.Context, b Bucket, deep bool) (Report, error) {
	b = buckets.Retrying(b)
	// The floor rises once an hour or so, so a second attempt is most often the last. The findings
	// of the last attempt are returned as they are.
	for try := 1; ; try++ {
		v := &verification{b: b, deep: deep, first: 1}
		err := v.run(ctx)
		if err != nil {
			return Report{}, fmt.Errorf("remote: verify: %w", err)
		}
		if len(v.report.Findings) == 0 || try == verifyTries {
			return v.report, nil
		}
		step, err := chain.ReadNewest(ctx, b, v.report.StoreID, 0)
		if err != nil || step == nil || step.Floor <= v.first {
			return v.report, nil // an error is a finding too
		}
		// Objects were collected that were in the list when it was made.
	}
}

// A verification is one attempt of Verify. It lists the bucket once, at the beginning, and then compares what steps and pins
// need with that list. An object that was collected after the list was made would be a finding; so Verify begins again
// if the floor was raised meanwhile.
// One goroutine has it, but for find, which the reads of several tables call at the same time.
type verification struct {
	b      Bucket
	deep   bool
	report Report

	// What the LIST has found. Entries of files are removed as they turn out to be needed.
	files    map[string]int64          // tables and sidecars, with their sizes
	segments map[object.Position]int64 // with the lengths of their bodies
	steps    map[uint64]bool
	states   map[uint64]bool
	pins     []string
	left     []Info

	first  uint64 // the first step that can be restored
	newest *object.Step
	needed map[string]*manifest.Table // the tables and sidecars that are needed, by name
	listed map[object.Position]bool   // the ends of segments that were found to be whole, from the beginning of the log
	used   map[object.Position]bool   // segments that are needed

	mu sync.Mutex // protects report.Findings
}

// find notes a finding about an object. Damage names its object itself, and that name counts: a segment that is read by way
// of another one is the one to look at.
func (v *verification) find(object string, err error) {
	var damage *base.CorruptionError
	if errors.As(err, &damage) {
		object = damage.File
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Findings = append(v.report.Findings, Finding{Object: object, Err: err})
}

// findOr notes err as a finding if it is damage, or if it says that the object is missing. It returns any other error.
// A request that fails says nothing about the store, so it ends Verify and is no finding.
func (v *verification) findOr(object string, err error) error {
	var damage *base.CorruptionError
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		v.find(object, restore.ErrMissing)
	case errors.As(err, &damage), errors.Is(err, ErrChecksum), errors.Is(err, base.ErrFormatTooNew):
		v.find(object, err)
	default:
		return err
	}
	return nil
}

// run carries out the steps of an attempt:
//
//  1. list lists all objects.
//  2. chain reads the steps that are kept, applies them to each other, compares the sums with the
//     states, and notes what they need.
//  3. pinned does so for the pins.
//  4. walk goes through the list of segments.
//  5. leftovers finds what nothing needs.
//  6. If it is deep, all bytes of tables and segments are read.
//  7. point finds the newest point that can be restored.
func (v *verification) run(ctx context.Context) error {
	var err error
	if v.report.StoreID, err = restore.StoreIn(ctx, v.b); err != nil {
		return err
	}
	v.needed = make(map[string]*manifest.Table)
	v.listed, v.used = make(map[object.Position]bool), make(map[object.Position]bool)
	// list comes first, because all others compare with what it has found. chain and pinned say
	// what is needed, and the two that read come after them. point comes last: it passes by what
	// has a finding.
	for _, part := range []func(context.Context) error{v.list, v.chain, v.pinned, v.readTables, v.readSegments, v.point} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	v.leftovers()
	slices.SortStableFunc(v.report.Findings, func(a, b Finding) int { return cmp.Compare(a.Object, b.Object) })
	return nil
}

// list lists all objects, and sorts them by what they are for. Names that are not shale's are leftovers.
func (v *verification) list(ctx context.Context) error {
	v.files, v.segments = make(map[string]int64), make(map[object.Position]int64)
	v.steps, v.states = make(map[uint64]bool), make(map[uint64]bool)
	for info, err := range v.b.List(ctx, "", "") {
		if err != nil {
			return err
		}
		// A name that is not shale's has kind 0, which is none of the cases.
		name, _ := object.ParseName(info.Name)
		switch name.Kind {
		case object.KindIdentity:
		case object.KindTable, object.KindFilter:
			v.files[info.Name] = info.Size
		case object.KindSegment:
			// An object that is shorter than a header gets a negative length here. It counts as one
			// without a body, and whoever reads its header finds the damage.
			v.segments[object.Position{Log: name.Num, Offset: name.Offset}] = info.Size - object.SegmentHeader
		case object.KindStep:
			v.steps[name.Num] = true
		case object.KindState:
			v.states[name.Num] = true
		case object.KindPin:
			v.pins = append(v.pins, info.Name)
		default:
			v.left = append(v.left, info)
		}
	}
	return nil
}

// chain checks the steps that are kept, and the states.
func (v *verification) chain(ctx context.Context) error {
	newest := uint64(0)
	for n := range v.steps {
		newest = max(newest, n)
	}
	if newest == 0 {
		return nil // nothing was published yet
	}
	// If no step can be read, the report names the newest that is there.
	v.report.First, v.report.Newest = newest, newest
	last, err := v.lastStep(ctx, newest)
	if err != nil || last == nil {
		return err
	}
	v.newest, v.first = last, max(last.Floor, 1)
	v.report.First = v.first
	h := &restore.History{Bucket: v.b, StoreID: v.report.StoreID, Newest: last.N, Floor: v.first}
	// The walk enters at the state of the floor and at no other: the other states are compared with
	// the sum of the steps, which must therefore not begin with one of them.
	if v.first > 1 {
		h.States = []uint64{v.first}
	}
	_, err = h.Walk(ctx, last.N, func(m restore.Moment) error { return v.addStep(ctx, m) })
	v.report.Findings = append(v.report.Findings, h.Damage...)
	return v.findOr(object.StepName(last.N), err)
}

// addStep notes what a step needs. The state after it is compared with the one in the bucket, if there is one: a restore may
// begin with either, and must come to the same tables.
func (v *verification) addStep(ctx context.Context, m restore.Moment) error {
	step, state := m.Step, m.State
	if state.N == v.first && v.first > 1 {
		v.need(object.StateName(v.first), state)
	} else {
		v.needNew(step, state)
	}
	if step == nil {
		return nil // it is damaged, and the state stands for it
	}
	// A restore takes LastTableSeq for the number up to which tables and logs lack nothing. A step
	// that adds a table or a range delete beyond that contradicts itself.
	if step.Edit != nil {
		for d := range step.Edit.Spans.All() {
			if uint64(d.Newest()) > step.LastTableSeq {
				v.find(step.Name(), fmt.Errorf("it says that tables go up to sequence number %d, but adds a range delete with %d",
					step.LastTableSeq, d.Newest()))
			}
		}
		for _, a := range step.Edit.Added {
			if uint64(a.Table.MaxSeq) > step.LastTableSeq {
				v.find(step.Name(), fmt.Errorf("it says that tables go up to sequence number %d, but adds %s with %d",
					step.LastTableSeq, object.TableName(uint64(a.Table.Num)), a.Table.MaxSeq))
			}
		}
	}
	if !v.states[step.N] {
		return nil
	}
	kept, err := chain.ReadState(ctx, v.b, v.report.StoreID, step.N)
	if err != nil {
		return v.findOr(object.StateName(step.N), err)
	}
	// Equal states have equal bytes, so the encodings are compared and not the fields one by one.
	want, err := state.Encode(nil)
	if err != nil {
		v.find(step.Name(), err)
		return nil
	}
	if got, err := kept.Encode(nil); err != nil || !bytes.Equal(got, want) {
		v.find(object.StateName(step.N), errors.Join(errors.New("it is not the sum of the steps up to it"), err))
	}
	return nil
}

// needNew notes what a step needs in addition to the step before it. state is the one after the step. If a step gives
// sidecars to tables of earlier steps, all of its state is gone through, which is the only place that names these tables.
func (v *verification) needNew(step *object.Step, state *object.State) {
	if e := step.Edit; e != nil && len(e.Sidecars) > 0 {
		v.need(step.Name(), state)
		return
	} else if e != nil {
		for _, a := range e.Added {
			v.needTable(step.Name(), a.Table)
		}
	}
	for _, e := range state.Extents {
		v.needLog(step.Name(), e)
	}
}

// need notes the tables, sidecars and segments that a state needs, which owner names.
func (v *verification) need(owner string, s *object.State) {
	for t := range s.Tables.Version.Tables() {
		v.needTable(owner, t)
	}
	for _, e := range s.Extents {
		v.needLog(owner, e)
	}
}

// needTable notes a table and its sidecar.
func (v *verification) needTable(owner string, t *manifest.Table) {
	for f := range tablefs.FilesOfTable(t) {
		v.needFile(owner, f.Name(), f.Size, t)
	}
}

// needFile notes a table or a sidecar.
func (v *verification) needFile(owner, name string, size int64, t *manifest.Table) {
	// Many steps name the same file. A finding mentions the first of them.
	if v.needed[name] != nil {
		return
	}
	v.needed[name] = t
	v.report.Tables++
	v.report.Bytes += size
	switch found, there := v.files[name]; {
	case !there:
		v.find(name, fmt.Errorf("%w: %s names it", restore.ErrMissing, owner))
	case found != size:
		v.find(name, fmt.Errorf("it has %d bytes, %s says %d", found, owner, size))
	}
}

// needLog notes the segments of an extent, which must follow each other from the beginning of the log. Each step names its
// logs from their beginnings, so listed remembers how far a log was followed: otherwise the time would grow with the square
// of the number of steps.
func (v *verification) needLog(owner string, e object.Extent) {
	end := object.Position{Log: e.Log, Offset: e.Length}
	if v.listed[end] {
		return
	}
	at := object.Position{Log: e.Log}
	for at.Before(end) {
		length, there := v.segments[at]
		if !there {
			v.find(at.String(), fmt.Errorf("%w: %s names the log up to offset %d", restore.ErrMissing, owner, e.Length))
			return
		}
		v.used[at] = true
		// A segment without a body is an empty seal or a fence. It ends the log, so no extent goes
		// on behind it.
		if at.Offset += max(length, 0); length <= 0 {
			v.find(at.String(), fmt.Errorf("it ends the log there, but %s names the log up to offset %d", owner, e.Length))
			return
		}
		v.listed[at] = true
	}
	if at != end {
		v.find(at.String(), fmt.Errorf("%s says that a segment of the log ends at offset %d, but one ends at %d", owner, e.Length, at.Offset))
	}
	// This is set after a finding too, so that the log is reported once and not for each step that
	// names it.
	v.listed[end] = true
}

// pinned checks the pins, and the objects that they need. A pin of a kept step needs nothing more. The steps and states that
// lead to the step of an older pin are no leftovers.
func (v *verification) pinned(ctx context.Context) error {
	v.report.Pins = len(v.pins)
	for _, name := range v.pins {
		p, err := chain.ReadPin(ctx, v.b, v.report.StoreID, strings.TrimPrefix(name, object.PinFolder))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			if err := v.findOr(name, err); err != nil {
				return err
			}
			continue
		}
		if p.N >= v.first {
			continue // the steps need all of that
		}
		state, from, err := chain.PinnedState(ctx, v.b, p)
		if errors.Is(err, ErrSnapshotGone) {
			v.find(name, err)
		} else if err := v.findOr(name, err); err != nil {
			return err
		} else if state != nil {
			v.need(name, state)
		}
		// From here up these maps serve only to find leftovers.
		for n := from; state != nil && n <= p.N; n++ {
			delete(v.steps, n)
			delete(v.states, n)
		}
	}
	return nil
}

// readSegments goes through the list of segments, from the first that the steps need. If it is deep, it
// reads all of them, otherwise the headers of those that end a log.
func (v *verification) readSegments(ctx context.Context) error {
	at, err := v.listStart(ctx)
	if err != nil || at == (object.Position{}) {
		return err
	}
	if v.deep {
		return v.readLogs(ctx, at)
	}
	// The names and sizes of the LIST already show how the segments of a log follow each other.
	// Only a segment that ends a log has to be asked where the list goes on.
	there := func(at object.Position) bool {
		_, there := v.segments[at]
		return there
	}
	if at, err = v.walk(ctx, at, there, v.passSegment, v.checkEnd); err != nil {
		return v.findOr(at.String(), err)
	}
	v.checkRest(at)
	return nil
}

// walk goes through the segments of the LIST from a place up to one that good refuses, and returns that place. It calls
// pass for each, and last with the header of each that ends a log.
func (v *verification) walk(ctx context.Context, at object.Position, good func(object.Position) bool, pass func(at object.Position, length int64), last func(*object.Segment)) (object.Position, error) {
	for good(at) {
		length := v.segments[at]
		pass(at, length)
		// A segment with another one right behind it in the same log is data, so its header need
		// not be read.
		if next := (object.Position{Log: at.Log, Offset: at.Offset + length}); length > 0 && good(next) {
			at = next
			continue
		}
		s, err := chain.ReadHead(ctx, v.b, v.report.StoreID, at)
		if err == nil && s.Length != length {
			err = base.Corruption(at.String(), -1, "segment", fmt.Errorf("it has a body of %d bytes, its header says %d", length, s.Length))
		}
		if err != nil {
			return at, err
		}
		last(s.Segment)
		at = s.After()
	}
	return at, nil
}

// listStart returns the first place of the list of segments that the steps need: the zero place if it
// is not known.
func (v *verification) listStart(ctx context.Context) (object.Position, error) {
	if v.newest == nil {
		return object.Position{}, nil
	}
	// The extents of the first step begin with the first log that any kept step needs. If that step
	// can't be read, the first log of the LIST has to do.
	step, err := chain.ReadStep(ctx, v.b, v.report.StoreID, v.first)
	switch {
	case err != nil:
		return v.logBehind(0), v.findOr(object.StepName(v.first), err)
	case len(step.Extents) == 0:
		return object.RootPosition, nil
	}
	return object.Position{Log: step.Extents[0].Log}, nil
}

// passSegment counts a segment of the list.
func (v *verification) passSegment(at object.Position, length int64) {
	v.used[at] = true
	v.report.Segments++
	v.report.Bytes += length
}

// checkEnd checks a segment that may be a fence. Who fences has claimed an epoch before, with a step that is still there.
func (v *verification) checkEnd(s *object.Segment) {
	if s.Kind == object.SegmentFence && s.Next>>object.EpochShift > v.newest.Epoch {
		v.find(s.Name(), fmt.Errorf("it is a fence of epoch %d, but nobody has claimed an epoch after %d", s.Next>>object.EpochShift, v.newest.Epoch))
	}
}

// checkRest looks for segments behind the place where the list of segments ends. Nothing is ever appended behind the end of
// the list, so such segments show that the one at its end is missing.
func (v *verification) checkRest(end object.Position) {
	behind := 0
	for at := range v.segments {
		if end.Before(at) && !v.used[at] {
			behind++
		}
	}
	if behind > 0 {
		v.find(end.String(), fmt.Errorf("%w: %d segments stand behind it", restore.ErrMissing, behind))
	}
}

// leftovers notes what nothing needs.
func (v *verification) leftovers() {
	left := v.left
	for name, size := range v.files {
		if v.needed[name] == nil {
			left = append(left, Info{Name: name, Size: size})
		}
	}
	for at, length := range v.segments {
		if !v.used[at] && length > 0 { // fences stay for ever
			left = append(left, Info{Name: at.String(), Size: length + object.SegmentHeader})
		}
	}
	for n := range v.steps {
		if n < v.first {
			left = append(left, Info{Name: object.StepName(n)})
		}
	}
	for n := range v.states {
		if n < v.first || n > v.report.Newest {
			left = append(left, Info{Name: object.StateName(n)})
		}
	}
	slices.SortFunc(left, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	v.report.Leftovers = left
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/collect"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// A modelWriter writes to a store as a Store does, without a directory: it ships records in segments, and
// publishes one table with all records so far. All that the protocol consists of is the code that Stores use.
type modelWriter struct {
	m      *model
	b      Bucket
	name   string
	writer uint64

	c       *chain.Chain
	records []string        // all, in the order of the list
	at      object.Position // where the next segment goes
	logs    []object.Extent // of the log that is written now, if something of it was shipped
	file    uint64          // the last number that was given to a file
	upload  uint64          // the table that is being uploaded
	noted   uint64          // the last step that it may have put
	dir     bool            // it has a directory: see modelDir
	local   map[uint64]bool // the tables of a directory, as they were when it was copied
}

// A model is what an actor knows to be done, and what the explorer checks.
type model struct {
	prepared Bucket // before anything happens
	owner    *modelWriter
	acked    []string // records whose segment was appended
	pins     []*Pin   // that were acknowledged and not given up
	claims   []uint64 // epochs of claims that succeeded
	beliefs  []belief
	broken   []error
	drawn    uint64
}

// A belief says that an actor takes a step for a right one: it must be the first one that stood at its place.
type belief struct {
	name          string
	bytes         uint64 // a hash of its bytes
	epoch, writer uint64
}

var ctxModel = context.Background()

// newModel returns the model of an actor in a bucket, with the owner that findOwner has found there.
func newModel(prepared Bucket, owner *modelWriter) *model {
	return &model{prepared: prepared, owner: owner}
}

// digest returns a hash of what is checked from now on.
func (m *model) digest() uint64 {
	h := hashOf(fmt.Sprint(m.acked, m.claims, m.broken, m.drawn))
	for _, p := range m.pins {
		src, err := p.Encode(nil)
		if err != nil {
			m.fail("pin: %w", err)
		}
		h = mix(h, hashOf(string(src)))
	}
	return h
}

// phase says that what w still does depends on nothing but its fields. done is what it has done last.
func (w *modelWriter) phase(done string) {
	step, err := w.c.Step.Encode(nil)
	state, err2 := w.c.State.Encode(step)
	if err = errors.Join(err, err2); err != nil {
		w.m.fail("%s %s: %w", w.name, done, err)
	}
	phase(w.b, mix(hashOf(string(state)), hashOf(fmt.Sprint(
		done, w.name, w.writer, w.records, w.at, w.logs, w.file, w.upload, w.noted, w.dir, w.local, w.c.Epoch, w.c.Writer, w.c.Needs, w.c.Misses))))
}

func (m *model) fail(format string, args ...any) {
	m.broken = append(m.broken, fmt.Errorf(format, args...))
}

// readStore restores every step that can be restored, and returns the records of the newest state.
func readStore(b Bucket) ([]string, error) {
	newest, err := chain.LoadChain(ctxModel, b, remotetest.ExampleStore, 0)
	if err != nil {
		return nil, fmt.Errorf("the newest step can't be loaded: %w", err)
	}
	for n := max(1, newest.State.Floor); n < newest.N(); n++ {
		c, err := chain.LoadChain(ctxModel, b, remotetest.ExampleStore, n)
		if err != nil {
			return nil, fmt.Errorf("step %d, floor %d: %w", n, newest.State.Floor, err)
		}
		if err := checkNeeded(b, c.State, false); err != nil {
			return nil, fmt.Errorf("step %d, floor %d: %w", n, newest.State.Floor, err)
		}
	}
	if err := checkNeeded(b, newest.State, false); err != nil {
		return nil, fmt.Errorf("the newest step: %w", err)
	}
	return recordsOf(b, newest.State)
}

// recordsOf returns the records of a state, and of everything in the list of segments behind it.
func recordsOf(b Bucket, s *object.State) ([]string, error) {
	var all []string
	for t := range s.Tables.Version.Tables() {
		src, err := ReadObject(ctxModel, b, object.TableName(uint64(t.Num)), 1<<20)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.Fields(string(src))...)
	}
	from := object.RootPosition
	if len(s.Extents) > 0 {
		from = object.Position{Log: s.Extents[0].Log}
	}
	for segment, err := range modelList(b).From(ctxModel, from) {
		if err != nil {
			return nil, err
		}
		for _, r := range strings.Fields(string(segment.Body)) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// modelList is the list of segments, which the goroutine of the caller reads: an actor has no other.
func modelList(b Bucket) chain.SegmentList {
	return chain.SegmentList{Bucket: b, StoreID: remotetest.ExampleStore, AtOnce: 1}
}

// checkNeeded returns an error if something is missing that a restore of s reads.
func checkNeeded(b Bucket, s *object.State, pinned bool) error {
	for t := range s.Tables.Version.Tables() {
		info, err := b.Stat(ctxModel, object.TableName(uint64(t.Num)))
		if err != nil || info.Size != t.Size || info.CRC32C != t.Checksum {
			return fmt.Errorf("table %d is %v, %v", t.Num, info, err)
		}
	}
	for _, e := range s.Extents {
		at := object.Position{Log: e.Log}
		for at.Offset < e.Length {
			s, err := chain.ReadHead(ctxModel, b, remotetest.ExampleStore, at)
			if err != nil {
				return err
			}
			at.Offset += s.Length
		}
	}
	if pinned {
		return nil
	}
	_, err := chain.ListEnd(ctxModel, b, remotetest.ExampleStore, s.Extents)
	return err
}

// resume makes an actor out of an owner whose chain is in the bucket.
func (m *model) resume(b Bucket, name string) *modelWriter {
	w := *m.owner
	chain, state := *w.c, *w.c.State
	w.m, w.b, w.name, w.c, w.records = m, b, name, &chain, slices.Clone(w.records)
	w.c.State = &state
	return &w
}

// findOwner looks for the owner's place before anything happens.
func findOwner(b Bucket) *modelWriter {
	w := new(modelWriter)
	var err error
	w.c, err = chain.LoadChain(ctxModel, b, remotetest.ExampleStore, 0)
	if err != nil {
		panic(err)
	}
	w.c.Epoch, w.c.Writer, w.c.Now = w.c.Step.Epoch, w.c.Step.Writer, modelNow
	w.writer = w.c.Writer
	if w.records, err = recordsOf(b, w.c.State); err != nil {
		panic(err)
	}
	w.at = object.RootPosition
	if e := w.c.State.Extents; len(e) > 0 {
		w.at = object.Position{Log: e[0].Log}
	}
	for s, err := range modelList(b).From(ctxModel, w.at) {
		if err != nil {
			panic(err)
		}
		w.at = s.After()
		if s.Length > 0 {
			w.logs = []object.Extent{{Log: s.Log, Length: s.BodyEnd().Offset}}
		}
	}
	w.file, w.noted = w.c.Epoch<<object.EpochShift+1000, w.c.N()
	return w
}

func modelNow() time.Time { return remotetest.ExampleTime }

// padding makes the first segment of a log long enough.
var padding = strings.Repeat(" ", object.LogHeader)

// ship appends a segment with one record, and reports whether it was acknowledged.
func (w *modelWriter) ship(kind object.SegmentKind) bool {
	record := fmt.Sprintf("%s%d", w.name, len(w.records))
	s := &object.Segment{
		StoreID: remotetest.ExampleStore, Log: w.at.Log, Offset: w.at.Offset, FirstSeq: uint64(len(w.records) + 1), LastSeq: uint64(len(w.records) + 1),
		Written: remotetest.ExampleTime, Kind: kind, Body: []byte(padding + record),
	}
	if kind == object.SegmentSeal {
		s.Next = w.at.Log + 1
	}
	there, err := chain.PutSegment(ctxModel, w.b, s)
	if err != nil {
		return false
	}
	if there != s && string(there.Body) != string(s.Body) {
		w.m.fail("%s finds %q in the place of %s", w.name, there.Body, record)
	}
	w.m.acked = append(w.m.acked, record)
	w.records = append(w.records, record)
	w.logs = []object.Extent{{Log: s.Log, Length: s.End(), LastSeq: s.LastSeq, Sealed: kind == object.SegmentSeal}}
	w.at = object.AfterSegment(s)
	return true
}

// handOver ends the list of segments of w for good, as Store.handOver does.
func (w *modelWriter) handOver() {
	seq := uint64(len(w.records))
	_, _ = chain.PutSegment(ctxModel, w.b, &object.Segment{
		StoreID: remotetest.ExampleStore, Log: w.at.Log, Offset: w.at.Offset, FirstSeq: seq + 1, LastSeq: seq, Written: remotetest.ExampleTime,
		Kind: object.SegmentSeal, Next: object.AnchorOf(w.c.Epoch + 1).Log,
	})
}

// ships appends segments of these kinds, as far as they are acknowledged.
func (w *modelWriter) ships(kinds ...object.SegmentKind) {
	for _, kind := range kinds {
		if !w.ship(kind) {
			return
		}
	}
}

// publish publishes one table with all records, which takes the place of all others.
func (w *modelWriter) publish(floor uint64) bool {
	w.file++
	w.upload = w.file
	body := []byte(strings.Join(w.records, " "))
	if err := PutObject(ctxModel, w.b, object.TableName(w.file), body, false); err != nil {
		return false
	}
	last := base.Seq(len(w.records) + 1)
	table := &manifest.Table{
		Num: base.FileNum(w.file), Size: int64(len(body)), Checksum: Checksum(body), Smallest: []byte("a"), Largest: []byte("b"),
		MinSeq: 1, MaxSeq: last, Entries: 1, Keys: 1,
	}
	edit := &manifest.Edit{Added: []manifest.Added{{Level: 1, Run: w.file, Table: table}}}
	for t := range w.c.State.Tables.Version.Tables() {
		edit.Removed = append(edit.Removed, manifest.Removed{Level: 1, Num: t.Num})
	}
	if !w.step(&object.Step{Edit: edit, Extents: w.logs, LastTableSeq: uint64(last), Floor: floor}) {
		return false
	}
	w.upload = 0
	w.phase("publishes")
	return true
}

// step publishes a step.
func (w *modelWriter) step(s *object.Step) bool {
	s.Written = remotetest.ExampleTime
	if len(s.Extents) == 0 {
		s.Extents = w.c.State.Extents
	}
	err := w.c.Publish(ctxModel, w.b, s, w.note)
	if err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, errLost) {
		w.m.fail("%s publishes: %w", w.name, err)
	}
	if err == nil {
		w.m.believed(w.c.Step)
	}
	return err == nil
}

// note notes that a step is about to be put.
func (w *modelWriter) note(n uint64) error {
	w.noted = n
	if !w.dir {
		return nil
	}
	return modelDir{w.b}.note(n)
}

// believed notes that an actor believes in a step.
func (m *model) believed(s *object.Step) {
	src, err := s.Encode(nil)
	if err != nil {
		m.fail("step %d: %w", s.N, err)
	}
	m.beliefs = append(m.beliefs, belief{s.Name(), hashOf(string(src)), s.Epoch, s.Writer})
}

// claim makes the writer the owner, up to its anchor. It takes in what was there.
func (w *modelWriter) claim(writer uint64) bool {
	w.writer = writer
	var err error
	w.c, err = chain.Claim(ctxModel, w.b, chain.Claimant{
		StoreID: remotetest.ExampleStore, Writer: writer, Now: modelNow, Tries: 2, Note: func(*object.Step, uint64) error { return nil },
	})
	if errors.Is(err, ErrFenced) {
		return false
	}
	if err != nil {
		w.m.fail("%s claims: %w", w.name, err)
		return false
	}
	w.m.believed(w.c.Step)
	w.m.claims = append(w.m.claims, w.c.Epoch)
	w.file = w.c.Epoch << object.EpochShift
	w.phase("claims")
	return true
}

// goOn is what a new process does with the directory of w: it claims the store if nobody else has written steps, ships
// what the log has beyond the bucket, and goes on in a log of the new epoch.
func (w *modelWriter) goOn(writer uint64) {
	noted := w.writer
	c, err := chain.Claim(ctxModel, w.b, chain.Claimant{
		StoreID: remotetest.ExampleStore, Writer: writer, Now: modelNow, Tries: 2,
		Note: func(newest *object.Step, epoch uint64) error {
			if newest.Writer != noted {
				return fmt.Errorf("the directory is a copy: %w", ErrFenced)
			}
			return nil
		},
	})
	if err != nil {
		if !errors.Is(err, ErrFenced) {
			w.m.fail("%s claims again: %w", w.name, err)
		}
		return
	}
	w.m.believed(c.Step)
	w.m.claims = append(w.m.claims, c.Epoch)
	w.c, w.writer, w.file = c, writer, c.Epoch<<object.EpochShift+100
	// The log has the record of the call that failed, and one more.
	seq := uint64(len(w.records))
	records := fmt.Sprintf("%s%d %s%d", w.name, seq, w.name, seq+1)
	s := &object.Segment{
		StoreID: remotetest.ExampleStore, Log: w.at.Log, Offset: w.at.Offset, FirstSeq: seq + 1, LastSeq: seq + 2,
		Written: remotetest.ExampleTime, Kind: object.SegmentSeal, Next: c.Epoch<<object.EpochShift + 1, Body: []byte(padding + records),
	}
	there, err := chain.PutSegment(ctxModel, w.b, s)
	if err != nil {
		return
	}
	if there != s { // what the call that failed has appended, before the directory was opened or after it
		w.acknowledge(strings.Fields(string(there.Body))...)
		if there.Kind == object.SegmentData {
			w.at = object.AfterSegment(there)
			_ = w.ship(object.SegmentData) && w.ship(object.SegmentSeal)
			return
		}
		w.at = object.AfterSegment(there)
	} else {
		w.acknowledge(strings.Fields(records)...)
		w.at = object.AfterSegment(s)
	}
	w.ship(object.SegmentData)
}

// acknowledge notes records whose segment was appended.
func (w *modelWriter) acknowledge(records ...string) {
	w.m.acked = append(slices.Clone(w.m.acked), records...)
	w.records = append(slices.Clone(w.records), records...)
}

// take fences the others, reads what they have left, and writes the anchor.
func (w *modelWriter) take() bool {
	w.c.AtOnce = 1
	if _, err := w.c.Fence(ctxModel, w.b, object.Position{}); err != nil {
		if !errors.Is(err, ErrFenced) {
			w.m.fail("%s fences: %w", w.name, err)
		}
		return false
	}
	// Restore has tests of its own. Here it counts what is there at this time.
	var err error
	if w.records, err = recordsOf(readOnly{w.b}, w.c.State); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.m.fail("%s recovers: %w", w.name, err)
		}
		return false // another owner has collected it
	}
	return w.anchor()
}

// takeWarm is take of a reader that has read everything before, and after the fence only what has come since.
func (w *modelWriter) takeWarm() bool {
	last := w.at // resume has found it, with the records
	w.c.AtOnce = 1
	if _, err := w.c.Fence(ctxModel, w.b, object.Position{}); err != nil {
		return false
	}
	for s, err := range modelList(w.b).From(ctxModel, last) {
		if err != nil {
			return false
		}
		w.records = append(w.records, strings.Fields(string(s.Body))...)
	}
	return w.anchor()
}

// anchor writes the anchor and begins a log.
func (w *modelWriter) anchor() bool {
	first := w.c.Epoch<<object.EpochShift + 1
	w.file = first
	anchor := anchorSegment(w.c, first, uint64(len(w.records)))
	if _, err := chain.PutSegment(ctxModel, w.b, anchor); err != nil {
		return false
	}
	w.at, w.logs = object.AfterSegment(anchor), nil
	w.phase("anchors")
	return true
}

// readOnly is there to see that recovery changes nothing.
type readOnly struct{ Bucket }

func (readOnly) Delete(context.Context, string) error { panic("recovery deletes") }

// collect raises the floor to the newest step, and collects.
func (w *modelWriter) collect(now time.Time) bool {
	if err := w.c.PutState(ctxModel, w.b); err != nil {
		return false
	}
	floor, _, err := collect.ChooseFloor(ctxModel, w.b, w.c, 0, since(remotetest.ExampleTime))
	if err != nil {
		return false
	}
	return w.delete(floor, now)
}

// delete collects, behind a step with a floor.
func (w *modelWriter) delete(floor uint64, now time.Time) bool {
	noted, local := w.noted, map[uint64]bool{}
	if w.dir {
		local, _ = modelDir{w.b}.read()
	}
	spare, err := collect.SpareFiles(ctxModel, w.b, w.c, func(num uint64) bool { return num == w.upload || local[num] })
	for err == nil && (floor > w.c.State.Floor || w.c.N() <= noted) {
		if !w.step(&object.Step{Floor: floor, LastTableSeq: w.c.Step.LastTableSeq}) {
			return false
		}
	}
	if err == nil {
		_, err = collectOnce(ctxModel, w.b, w.c, now, spare)
	}
	if err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSnapshotGone) {
		w.m.fail("%s collects: %w", w.name, err)
	}
	if err == nil {
		w.phase("collects")
	}
	return err == nil
}

// A modelReader pins steps and follows the owner.
type modelReader struct {
	m     *model
	b     Bucket
	drawn uint64
}

// pin pins a step, 0 for the newest, and notes the pin.
func (r *modelReader) pin(step uint64, lasts time.Duration) *Pin {
	r.drawn += 100
	p, err := chain.Pin(ctxModel, r.b, remotetest.ExampleStore, "pin", chain.PinOptions{
		Step: step, Lasts: lasts, Now: modelNow, Draw: func() uint64 { return r.drawn },
	})
	if err != nil {
		if !errors.Is(err, ErrSnapshotGone) && !errors.Is(err, fs.ErrNotExist) {
			r.m.fail("pin: %w", err)
		}
		return nil
	}
	r.m.pins = append(slices.Clone(r.m.pins), p)
	return p
}

// renew renews a pin and notes the new one.
func (r *modelReader) renew(p *Pin, now time.Time) *Pin {
	next, err := chain.RenewPin(ctxModel, r.b, p, time.Hour, now)
	if err != nil {
		if !errors.Is(err, ErrSnapshotGone) {
			r.m.fail("renew: %w", err)
		}
		return nil
	}
	r.m.pins = append(slices.Clone(r.m.pins), next)
	return next
}

// unpin gives up a pin.
func (r *modelReader) unpin(p *Pin) {
	r.m.pins = slices.DeleteFunc(slices.Clone(r.m.pins), func(o *Pin) bool { return o == p })
	if err := chain.Unpin(ctxModel, r.b, p.Label); err != nil {
		r.m.fail("unpin: %w", err)
	}
}

// follow reads the next steps, as many as there are, but at most n.
func (r *modelReader) follow(c *chain.Chain, n int) {
	for range n {
		step, err := c.Next(ctxModel, r.b)
		if err != nil && !errors.Is(err, ErrSnapshotGone) {
			r.m.fail("a reader follows: %w", err)
		}
		if err != nil || step == nil {
			return
		}
		r.m.believed(step)
	}
}

// load loads the newest step.
func (r *modelReader) load() *chain.Chain {
	c, err := chain.LoadChain(ctxModel, r.b, remotetest.ExampleStore, 0)
	if err != nil {
		r.m.fail("a reader begins: %w", err)
		return nil
	}
	r.m.believed(c.Step)
	return c
}

// modelHistory fills a bucket with the life of a first owner: n times it ships a log and publishes a table.
func modelHistory(b Bucket, n int) {
	m := newModel(b, nil)
	a := &modelWriter{m: m, b: b, name: "h"}
	if !a.claim(11) || !a.take() {
		panic(m.broken)
	}
	for range n {
		if !a.ship(object.SegmentData) || !a.ship(object.SegmentSeal) || !a.publish(0) {
			panic(m.broken)
		}
	}
	if !a.ship(object.SegmentData) {
		panic(m.broken)
	}
}

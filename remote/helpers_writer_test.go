package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A testWriter is a store that is kept in a bucket, step by step, as its test says. It also is a model of the
// store at each sequence number.
type testWriter struct {
	t   testing.TB
	b   Bucket
	mem *vfs.Mem
	db  *shale.DB

	storeID  uint64
	step     uint64
	version  *manifest.Version // of the last step
	floor    uint64
	at       object.Position // where the next segment goes
	lastSeq  uint64
	tableSeq uint64          // the LastTableSeq of the last step
	extents  []object.Extent // of all logs that are in the bucket

	random  *rand.Rand
	commits []testCommit
}

// A testCommit is what one write changed. A nil value deletes.
type testCommit struct {
	last    uint64 // the last sequence number
	changes map[string][]byte
}

// lives returns how many random lives a test tries: fewer in a brief run, and many in a long one.
func lives(t testing.TB, usual int) uint64 {
	switch {
	case testing.Short():
		return uint64(max(usual/4, 1))
	case testenv.Long(t) > 0:
		return uint64(100 * usual)
	}
	return uint64(usual)
}

// startWriter makes a store and the first objects of its bucket.
func startWriter(t testing.TB, b Bucket, seed uint64, opts shale.Options) *testWriter {
	t.Helper()
	w := &testWriter{t: t, b: b, mem: vfs.NewMem(), version: new(manifest.Version), random: rand.New(rand.NewPCG(seed, 1))}
	opts.FS, opts.Shipping.FirstFileNum, opts.Shipping.HoldLogs = w.mem, object.RootPosition.Log+1, 1
	if opts.MemtableSize == 0 {
		opts.MemtableSize = 16 << 10
	}
	db, err := shale.Open("db", &opts)
	mustNil(t, err)
	w.db = db
	t.Cleanup(func() { _ = db.Close() })
	hold, err := shale.ShippingOf(db).Hold()
	mustNil(t, err)
	w.storeID = hold.State().StoreID
	hold.Release()
	id, err := (&object.Identity{StoreID: w.storeID, Created: time.Now()}).Encode(nil)
	mustNil(t, err)
	mustNil(t, PutObject(t.Context(), b, IdentityName, id, true))
	first := uint64(w.logs()[0])
	w.put(&object.Segment{Log: object.RootPosition.Log, FirstSeq: 1, Kind: object.SegmentSeal, Next: first})
	w.at = object.Position{Log: first}
	w.publishKind(object.StepClaim)
	return w
}

func (w *testWriter) put(s *object.Segment) {
	w.t.Helper()
	s.StoreID, s.Written = w.storeID, time.Now()
	b, err := s.Encode(nil)
	mustNil(w.t, err)
	mustNil(w.t, PutObject(w.t.Context(), w.b, s.Name(), b, true))
}

// logs returns the numbers of the logs in the directory.
func (w *testWriter) logs() (nums []base.FileNum) {
	names, err := w.mem.List("db")
	mustNil(w.t, err)
	for _, name := range names {
		if kind, num, ok := base.ParseFileName(name); ok && kind == base.FileLog {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums
}

// ship puts what the logs have into the bucket, in segments of at most most bytes, if that is not 0.
func (w *testWriter) ship() {
	w.t.Helper()
	mustNil(w.t, w.db.Sync())
	pos := shale.ShippingOf(w.db).Position()
	for w.at.Log < pos.Log {
		r, err := wal.Read(w.mem, "db", base.FileNum(w.at.Log), w.storeID, wal.ReadOptions{Known: -1}, func([]byte) error { return nil })
		mustNil(w.t, err)
		logs := w.logs()
		next := logs[slices.Index(logs, base.FileNum(w.at.Log))+1]
		w.shipTo(r.Length, uint64(r.LastSeq), true, uint64(next))
	}
	if pos.Synced > w.at.Offset {
		r, err := wal.ReadRange(w.mem, "db", base.FileNum(pos.Log), w.storeID, 0, pos.Synced, func([]byte, int64) error { return nil })
		mustNil(w.t, err)
		w.shipTo(pos.Synced, uint64(r.LastSeq), false, 0)
	}
}

// shipTo puts the segment of the log from w.at up to an offset.
func (w *testWriter) shipTo(end int64, last uint64, seal bool, next uint64) {
	body := make([]byte, end-w.at.Offset)
	if len(body) > 0 {
		copy(body, remotetest.ReadFile(w.t, w.mem, filepath.Join("db", base.LogName(base.FileNum(w.at.Log))))[w.at.Offset:end])
	}
	last = max(last, w.lastSeq)
	s := &object.Segment{Log: w.at.Log, Offset: w.at.Offset, Body: body, FirstSeq: w.lastSeq + 1, LastSeq: last, Next: next}
	if seal {
		s.Kind = object.SegmentSeal
	}
	w.put(s)
	w.lastSeq = last
	w.extents = slices.DeleteFunc(w.extents, func(e object.Extent) bool { return e.Log == w.at.Log })
	w.extents = append(w.extents, object.Extent{Log: w.at.Log, Length: max(end, object.LogHeader), LastSeq: last, Sealed: seal})
	w.at = object.AfterSegment(s)
}

// publish ships, and puts new tables and a step into the bucket.
func (w *testWriter) publish() {
	w.t.Helper()
	w.ship()
	w.publishKind(object.StepPublish)
}

func (w *testWriter) publishKind(kind object.StepKind) {
	w.t.Helper()
	hold, err := shale.ShippingOf(w.db).Hold()
	mustNil(w.t, err)
	defer hold.Release()
	state := hold.State()
	step := &object.Step{StoreID: w.storeID, N: w.step + 1, Epoch: 1, Writer: 7, Written: time.Now(), Kind: kind, Floor: w.floor}
	if kind == object.StepPublish {
		step.Edit = w.upload(state)
		for t := range state.Version.Tables() {
			w.tableSeq = max(w.tableSeq, uint64(t.MaxSeq))
		}
		for _, log := range w.logs() {
			if log >= state.MinLog {
				h, err := wal.ReadHeader(w.mem, "db", log, w.storeID, 0)
				mustNil(w.t, err)
				w.tableSeq = max(w.tableSeq, uint64(h.PrevSeq))
				break
			}
		}
		step.LastTableSeq = w.tableSeq
	}
	for _, e := range w.extents {
		if e.Log >= uint64(state.MinLog) {
			step.Extents = append(step.Extents, e)
		}
	}
	if len(step.Extents) == 0 && len(w.extents) > 0 {
		step.Extents = w.extents[len(w.extents)-1:]
	}
	b, err := step.Encode(nil)
	mustNil(w.t, err)
	mustNil(w.t, PutObject(w.t.Context(), w.b, step.Name(), b, true))
	w.step++
}

// upload puts what is new in a state into the bucket, and returns the edit that leads to it.
func (w *testWriter) upload(state *manifest.State) *manifest.Edit {
	type in struct {
		level int
		run   uint64
		t     *manifest.Table
	}
	all := func(v *manifest.Version) map[base.FileNum]in {
		m := make(map[base.FileNum]in)
		for level := range v.Levels {
			for _, run := range v.Levels[level].Runs {
				for _, t := range run.Tables {
					m[t.Num] = in{level, run.ID, t}
				}
			}
		}
		return m
	}
	old, now := all(w.version), all(state.Version)
	edit := &manifest.Edit{NextFileNum: state.NextFileNum, LastSeq: state.LastSeq, MinLog: state.MinLog}
	for num, o := range old {
		if n, there := now[num]; !there || n.level != o.level || n.run != o.run {
			edit.Removed = append(edit.Removed, manifest.Removed{Level: o.level, Num: num})
		}
	}
	for num, n := range now {
		if o, there := old[num]; there && n.level == o.level && n.run == o.run {
			continue
		}
		edit.Added = append(edit.Added, manifest.Added{Level: n.level, Run: n.run, Table: n.t})
		if _, err := w.b.Stat(w.t.Context(), object.TableName(uint64(num))); errors.Is(err, fs.ErrNotExist) {
			putFile(w.t, w.mem, "db", w.b, tablefs.FileOf(n.t))
		}
	}
	w.version = state.Version
	return edit
}

// collect removes all that the newest step does not need, after a step that raises the floor.
func (w *testWriter) collect() {
	w.t.Helper()
	c, err := chain.LoadChain(w.t.Context(), w.b, w.storeID, 0)
	mustNil(w.t, err)
	src, err := c.State.Encode(nil)
	mustNil(w.t, err)
	mustNil(w.t, PutObject(w.t.Context(), w.b, c.State.Name(), src, true))
	w.floor = c.N()
	w.publishKind(object.StepPublish)
	state := c.State
	keep := map[string]bool{IdentityName: true, object.StepName(w.step - 1): true, object.StepName(w.step): true, state.Name(): true}
	newest, err := chain.LoadChain(w.t.Context(), w.b, w.storeID, 0)
	mustNil(w.t, err)
	for _, v := range []*manifest.Version{state.Tables.Version, newest.State.Tables.Version} {
		for f := range tablefs.FilesOf(v) {
			keep[f.Name()] = true
		}
	}
	for info, err := range w.b.List(w.t.Context(), "", "") {
		mustNil(w.t, err)
		n, _ := object.ParseName(info.Name)
		if !keep[info.Name] && n.Kind != object.KindPin && !(n.Kind == object.KindSegment && n.Num >= state.Extents[0].Log) {
			mustNil(w.t, w.b.Delete(w.t.Context(), info.Name))
		}
	}
}

// commit writes some changes, and notes them.
func (w *testWriter) commit(changes map[string][]byte) {
	w.t.Helper()
	var b shale.Batch
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if v := changes[key]; v != nil {
			mustNil(w.t, b.Put([]byte(key), v))
		} else {
			mustNil(w.t, b.Delete([]byte(key)))
		}
	}
	mustNil(w.t, w.db.Write(context.Background(), &b))
	w.commits = append(w.commits, testCommit{shale.ShippingOf(w.db).Position().LastSeq, changes})
}

// randomChanges returns changes of 1 to 20 of 300 keys.
func (w *testWriter) randomChanges() map[string][]byte {
	changes := make(map[string][]byte)
	for range 1 + w.random.IntN(20) {
		key := fmt.Sprintf("key%03d", w.random.IntN(300))
		changes[key] = nil
		if w.random.IntN(4) > 0 {
			changes[key] = bytes.Repeat([]byte{byte('a' + w.random.IntN(26))}, 1+w.random.IntN(200))
		}
	}
	return changes
}

// bulk writes all keys with values that make tables of which the tails are a small part.
func (w *testWriter) bulk() {
	changes := make(map[string][]byte)
	for k := range 300 {
		v := make([]byte, 2000)
		for i := range v {
			v[i] = byte(w.random.Uint32())
		}
		changes[fmt.Sprintf("key%03d", k)] = v
	}
	w.commit(changes)
	mustNil(w.t, w.db.Flush(context.Background()))
}

// ingest ingests some keys.
func (w *testWriter) ingest() {
	w.t.Helper()
	changes := w.randomChanges()
	maps.DeleteFunc(changes, func(_ string, v []byte) bool { return v == nil })
	if len(changes) == 0 {
		return
	}
	mustNil(w.t, w.db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			if !yield([]byte(key), changes[key]) {
				return
			}
		}
	}))
	w.commits = append(w.commits, testCommit{shale.ShippingOf(w.db).Position().LastSeq, changes})
}

// at returns what the store has after the commits up to a sequence number. If the number is within a commit, the
// test fails: batches are shown as a whole.
func (w *testWriter) modelAt(seq uint64) map[string][]byte {
	w.t.Helper()
	m, last := make(map[string][]byte), uint64(0)
	for _, c := range w.commits {
		if c.last > seq {
			break
		}
		last = c.last
		for k, v := range c.changes {
			if v == nil {
				delete(m, k)
			} else {
				m[k] = v
			}
		}
	}
	if last != seq {
		w.t.Fatalf("sequence number %d is not the end of a commit", seq)
	}
	return m
}

// check compares what a reader shows with the model at a sequence number.
func (w *testWriter) check(r shale.Reader, seq uint64) {
	w.t.Helper()
	want := w.modelAt(seq)
	got := 0
	for e, err := range r.Scan(shale.Range{}) {
		mustNil(w.t, err)
		if v, there := want[string(e.Key)]; !there || !bytes.Equal(v, e.Value) {
			w.t.Fatalf("at %d: %s = %.10q, want %.10q, %v", seq, e.Key, e.Value, v, there)
		}
		got++
	}
	if got != len(want) {
		w.t.Fatalf("at %d: %d keys, want %d", seq, got, len(want))
	}
	for range 20 {
		key := fmt.Sprintf("key%03d", w.random.IntN(300))
		v, err := r.Get([]byte(key))
		if want[key] == nil && err != shale.ErrNotFound || want[key] != nil && !bytes.Equal(v, want[key]) {
			w.t.Fatalf("at %d: Get(%s) = %.10q, %v, want %.10q", seq, key, v, err, want[key])
		}
	}
}

// putFile copies a table or a sidecar of a store into a bucket.
func putFile(t testing.TB, fsys vfs.FS, dir string, b Bucket, f tablefs.File) {
	t.Helper()
	mustNil(t, PutObject(t.Context(), b, f.Name(), remotetest.ReadFile(t, fsys, filepath.Join(dir, f.LocalName())), false))
}

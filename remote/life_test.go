package remote

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A shipped is a store in memory whose logs and tables are brought into a bucket, by means of the
// seams of the core, and a model of it: what it held after each of its batches. It ships only when
// it is told to, so that a test decides what the bucket has at each moment. Its clock is its own, too.
type shipped struct {
	t    testing.TB
	rng  *rand.Rand
	disk *vfs.Mem
	opts shale.Options
	db   *shale.DB

	b       Bucket
	storeID uint64
	writer  uint64
	epoch   uint64
	state   *object.State   // after the last step
	at      object.Position // the next segment
	extents []object.Extent // of all segments before it
	lastSeq uint64          // in segments
	tables  uint64          // the last one that the tables of the last step are known to have
	now     time.Time
	piece   int64 // bytes of a segment, about

	commits []commit // in order of their numbers
	ticks   []tick
}

// A commit is the sequence number up to which a batch goes, and what the store holds then.
type commit struct {
	seq  uint64
	held map[string]string
}

// A tick is a moment at which something came into the bucket, and up to where that can be restored.
type tick struct {
	at  time.Time
	seq uint64
}

const shippedDir = "db"

// newShipped returns an empty store, and claims a bucket for it.
func newShipped(t testing.TB, seed uint64, b Bucket) *shipped {
	t.Helper()
	s := &shipped{t: t, rng: rand.New(rand.NewPCG(seed, 5)), disk: vfs.NewMem(), b: b, writer: 7,
		now: time.UnixMilli(1_700_000_000_000).UTC(), piece: 2000, at: object.RootPosition, commits: []commit{{0, map[string]string{}}}}
	s.opts = shale.Options{FS: s.disk, MemtableSize: 64 << 10, Durability: shale.SyncManual, Shipping: shale.ShippingOptions{HoldLogs: 1}, CompactionWorkers: -1}
	s.open(1)
	h, err := shale.ShippingOf(s.db).Hold()
	mustNil(t, err)
	s.storeID = h.State().StoreID
	h.Release()
	s.state = object.EmptyState(s.storeID)
	src, err := (&object.Identity{StoreID: s.storeID, Created: s.now}).Encode(nil)
	mustNil(t, err)
	mustNil(t, PutObject(context.Background(), b, IdentityName, src, true))
	s.step(&object.Step{Kind: object.StepClaim})
	first := s.logs()[0]
	s.put(&object.Segment{Kind: object.SegmentSeal, FirstSeq: 1, Next: uint64(first)})
	return s
}

// open opens the store for an epoch.
func (s *shipped) open(epoch uint64) {
	s.t.Helper()
	s.epoch = epoch
	s.opts.Shipping.FirstFileNum = epoch<<object.EpochShift + 1
	var err error
	s.db, err = shale.Open(shippedDir, &s.opts)
	mustNil(s.t, err)
}

// close closes the store, if it is open.
func (s *shipped) close() { mustNil(s.t, s.db.Close()) }

// reopen closes the store, or lets it die, and opens it for the next epoch. The same directory goes on.
func (s *shipped) reopen() {
	s.t.Helper()
	s.ship()
	s.close()
	s.step(&object.Step{Kind: object.StepClaim, Epoch: s.epoch + 1})
	s.open(s.epoch + 1)
	s.ship()
}

// logs returns the numbers of the logs on disk, ascending, as far as they were used.
func (s *shipped) logs() (nums []base.FileNum) {
	names, err := s.disk.List(shippedDir)
	mustNil(s.t, err)
	current := base.FileNum(shale.ShippingOf(s.db).Position().Log)
	for _, name := range names {
		if typ, n, ok := base.ParseFileName(name); ok && typ == base.FileLog && n <= current {
			if _, err := wal.ReadHeader(s.disk, shippedDir, n, s.storeID, 0); err == nil || s.storeID == 0 || n == current {
				nums = append(nums, n)
			}
		}
	}
	slices.Sort(nums)
	return nums
}

// held returns what the store holds now.
func (s *shipped) held() map[string]string { return s.commits[len(s.commits)-1].held }

// note notes a commit. Its last number is that of the store.
func (s *shipped) note(change func(held map[string]string)) {
	held := maps.Clone(s.held())
	change(held)
	s.commits = append(s.commits, commit{shale.ShippingOf(s.db).Position().LastSeq, held})
}

// write writes a batch of n changes.
func (s *shipped) write(n int) {
	s.t.Helper()
	var b shale.Batch
	for range n {
		key := fmt.Appendf(nil, "k%02d", s.rng.IntN(40))
		switch s.rng.IntN(12) {
		case 0, 1, 2, 3:
			mustNil(s.t, b.Delete(key))
		case 4:
			mustNil(s.t, b.DeleteRange(key, append(key[:2:2], ':'))) // up to the next ten
		default:
			mustNil(s.t, b.Put(key, fmt.Appendf(nil, "%d-%s", len(s.commits), bytes.Repeat([]byte("v"), s.rng.IntN(200)))))
		}
	}
	mustNil(s.t, s.db.Write(context.Background(), &b))
	s.note(func(held map[string]string) {
		for op := range b.Ops() {
			applyTo(held, op)
		}
	})
}

// applyTo makes the change of op in a model.
func applyTo(held map[string]string, op shale.Op) {
	switch op.Kind {
	case shale.OpDelete:
		delete(held, string(op.Key))
	case shale.OpDeleteRange:
		maps.DeleteFunc(held, func(key, _ string) bool { return key >= string(op.Key) && (op.Value == nil || key < string(op.Value)) })
	default:
		held[string(op.Key)] = string(op.Value)
	}
}

// ingest brings some keys in by Ingest.
func (s *shipped) ingest() {
	s.t.Helper()
	from, n := s.rng.IntN(40), 1+s.rng.IntN(8)
	entries := map[string]string{}
	for i := from; i < from+n; i++ {
		entries[fmt.Sprintf("k%02d", i)] = fmt.Sprintf("ingested %d", len(s.commits))
	}
	sorted := func(yield func(k, v []byte) bool) {
		for _, k := range slices.Sorted(maps.Keys(entries)) {
			if !yield([]byte(k), []byte(entries[k])) {
				return
			}
		}
	}
	mustNil(s.t, s.db.Ingest(context.Background(), iter.Seq2[[]byte, []byte](sorted)))
	s.note(func(held map[string]string) { maps.Copy(held, entries) })
}

// tick moves the clock, and notes what can be restored from then on.
func (s *shipped) tick() {
	s.ticks = append(s.ticks, tick{s.now, max(s.lastSeq, s.tables)})
	s.now = s.now.Add(time.Second)
}

// put appends a segment to the list.
func (s *shipped) put(seg *object.Segment) {
	s.t.Helper()
	seg.StoreID, seg.Log, seg.Offset, seg.Written = s.storeID, s.at.Log, s.at.Offset, s.now
	src, err := seg.Encode(nil)
	mustNil(s.t, err)
	mustNil(s.t, PutObject(context.Background(), s.b, seg.Name(), src, true))
	s.at = object.AfterSegment(seg)
	s.extents = extended(slices.Clone(s.extents), seg, seg.End())
	s.lastSeq = max(s.lastSeq, seg.LastSeq)
	s.tick()
}

// ship brings all that is in the logs into the bucket.
func (s *shipped) ship() {
	s.t.Helper()
	mustNil(s.t, s.db.Sync())
	for {
		logs := s.logs()
		i := slices.Index(logs, base.FileNum(s.at.Log))
		if i < 0 {
			s.t.Fatalf("log %x is not there, only %x", s.at.Log, logs)
		}
		if i+1 == len(logs) {
			s.stretch(shale.ShippingOf(s.db).Position().Written, 0)
			return
		}
		h, err := wal.ReadHeader(s.disk, shippedDir, logs[i+1], s.storeID, 0)
		mustNil(s.t, err)
		if h.Prev != logs[i] {
			s.t.Fatalf("log %x follows %x", h.Num, h.Prev)
		}
		s.stretch(h.PrevLen, uint64(logs[i+1]))
	}
}

// stretch ships a log up to an offset, in several segments. If next is not 0, the log ends there.
func (s *shipped) stretch(to int64, next uint64) {
	s.t.Helper()
	path := filepath.Join(shippedDir, base.LogName(base.FileNum(s.at.Log)))
	f, err := s.disk.Open(path)
	mustNil(s.t, err)
	defer f.Close()
	seg := &object.Segment{FirstSeq: s.lastSeq + 1, LastSeq: s.lastSeq}
	send := func(end int64) {
		seg.Body = make([]byte, end-s.at.Offset)
		if len(seg.Body) > 0 {
			_, err := f.ReadAt(seg.Body, s.at.Offset)
			mustNil(s.t, err)
		}
		if seg.Kind == object.SegmentSeal || len(seg.Body) > 0 {
			s.put(seg)
		}
		seg = &object.Segment{FirstSeq: s.lastSeq + 1, LastSeq: s.lastSeq}
	}
	done := s.at.Offset
	_, err = wal.ReadRange(s.disk, shippedDir, base.FileNum(s.at.Log), s.storeID, s.at.Offset, to, func(payload []byte, end int64) error {
		first, b, err := shale.DecodeBatch(payload)
		mustNil(s.t, err)
		if end-s.at.Offset > s.piece && done > s.at.Offset && done >= object.LogHeader {
			send(done)
		}
		if seg.LastSeq < seg.FirstSeq {
			seg.FirstSeq = first
		}
		seg.LastSeq, done = first+uint64(b.Len())-1, end
		return nil
	})
	mustNil(s.t, err)
	if next > 0 {
		seg.Kind, seg.Next = object.SegmentSeal, next
	}
	send(max(to, s.at.Offset))
}

// publish brings the tables into the bucket, and a step that names them.
func (s *shipped) publish() {
	s.t.Helper()
	h, err := shale.ShippingOf(s.db).Hold()
	mustNil(s.t, err)
	defer h.Release()
	now := h.State()
	edit := diff(s.state.Tables.Version, now.Version)
	edit.NextFileNum, edit.LastSeq, edit.MinLog = now.NextFileNum, now.LastSeq, now.MinLog
	had := tablefs.NumsOf(s.state.Tables.Version)
	logs := s.logs()
	needed := logs[slices.IndexFunc(logs, func(n base.FileNum) bool { return n >= now.MinLog })]
	header, err := wal.ReadHeader(s.disk, shippedDir, needed, s.storeID, 0)
	mustNil(s.t, err)
	highest := max(header.PrevSeq, base.Seq(s.tables))
	for t := range now.Version.Tables() {
		highest = max(highest, t.MaxSeq)
		for f := range tablefs.FilesOfTable(t) {
			if !had[f.Num] {
				data := remotetest.ReadFile(s.t, s.disk, filepath.Join(shippedDir, f.LocalName()))
				mustNil(s.t, PutObject(context.Background(), s.b, f.Name(), data, false))
			}
		}
	}
	s.tables = uint64(highest)
	s.step(&object.Step{Kind: object.StepPublish, Edit: edit, LastTableSeq: s.tables, Extents: neededExtents(s.extents, now.MinLog)})
}

// step appends a step to the chain.
func (s *shipped) step(step *object.Step) {
	s.t.Helper()
	step.StoreID, step.N, step.Writer, step.Written = s.storeID, s.state.N+1, s.writer, s.now
	step.Epoch, step.Floor = max(s.epoch, step.Epoch), max(step.Floor, s.state.Floor)
	if step.Extents == nil {
		step.Extents = s.state.Extents
	}
	src, err := step.Encode(nil)
	mustNil(s.t, err)
	mustNil(s.t, PutObject(context.Background(), s.b, step.Name(), src, true))
	s.state, err = object.StateAfter(s.state, step)
	mustNil(s.t, err)
	if step.N%5 == 0 {
		src, err := s.state.Encode(nil)
		mustNil(s.t, err)
		mustNil(s.t, PutObject(context.Background(), s.b, s.state.Name(), src, true))
	}
	s.tick()
}

// want returns what the store held up to a sequence number, and the number of the last batch then.
func (s *shipped) want(seq uint64) commit {
	i, there := slices.BinarySearchFunc(s.commits, seq, func(c commit, seq uint64) int { return int(c.seq) - int(seq) })
	if !there {
		i--
	}
	return s.commits[i]
}

// live takes steps of a life. With gaps, the bucket does not get all that it should: an ingestion is not
// published at once, and what was shipped lags behind the tables.
func (s *shipped) live(steps int, gaps bool) {
	s.t.Helper()
	for range steps {
		switch x := s.rng.IntN(100); {
		case x < 40:
			s.write(1 + s.rng.IntN(4))
		case x < 52:
			s.ingest()
			if !gaps {
				s.ship()
				s.publish()
			}
		case x < 62:
			mustNil(s.t, s.db.Flush(context.Background()))
		case x < 66:
			mustNil(s.t, s.db.Compact(context.Background(), shale.Range{}))
		case x < 70:
			_, err := s.db.Inspect().RebuildFilters(context.Background())
			mustNil(s.t, err)
		case x < 84:
			s.ship()
		case x < 96:
			if !gaps || s.rng.IntN(2) == 0 {
				s.ship()
			}
			s.publish()
		default:
			s.reopen()
		}
	}
}

// restored restores a point, and returns what the store holds then. Its error is that of Restore.
func (s *shipped) restored(at At) (Restored, map[string]string, error) {
	s.t.Helper()
	mem := vfs.NewMem()
	r, err := Restore(context.Background(), s.b, "to", at, &RestoreOptions{FS: mem})
	if err != nil {
		if _, serr := mem.Stat("to/CURRENT"); serr == nil {
			s.t.Fatalf("there is a CURRENT after %v", err)
		}
		return r, nil, err
	}
	return r, contentsOf(s.t, mem, "to"), nil
}

// contentsOf opens a store, and returns all that it holds. It checks that every block of it is whole.
func contentsOf(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{FS: fsys, Exist: shale.MustExist, CompactionWorkers: -1, MemtableSize: 64 << 10})
	mustNil(t, err)
	defer db.Close()
	mustNil(t, db.Verify(context.Background()))
	return contents(t, db)
}

// filesOfDir returns the contents of all files in a directory, by name.
func filesOfDir(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		if _, serr := fsys.Stat(dir); serr != nil {
			return nil
		}
	}
	all := map[string]string{}
	for _, name := range names {
		all[name] = string(remotetest.ReadFile(t, fsys, filepath.Join(dir, name)))
	}
	return all
}

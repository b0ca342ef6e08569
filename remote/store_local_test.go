package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// flipIn changes a bit of the last file of a directory whose name ends so, at an offset. It returns the name.
func flipIn(t testing.TB, fsys vfs.FS, dir, suffix string, at int64) string {
	t.Helper()
	names, err := fsys.List(dir)
	mustNil(t, err)
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, suffix) })
	name := names[len(names)-1]
	remotetest.ChangeFile(t, fsys, filepath.Join(dir, name), func(b []byte) []byte { b[at] ^= 4; return b })
	return name
}

// TestStore_LocalTrouble damages a file of the running store, or fills its disk. The event and the status say that, and
// not that the bucket is away. When the trouble is over, all goes on by itself.
func TestStore_LocalTrouble(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(t *testing.T, s *Store, faulty *faultfs.FS) (end func(), check func(error) bool)
		ships bool // a restore has all writes meanwhile: those of a damaged table are in the logs, too
	}{
		{"a damaged table", func(t *testing.T, s *Store, _ *faultfs.FS) (func(), func(error) bool) {
			mustNil(t, s.DB().Flush(t.Context()))
			name := flipIn(t, s.fs, "db", ".sst", 100)
			return func() { flipIn(t, s.fs, "db", ".sst", 100) }, func(err error) bool {
				var damage *shale.CorruptionError
				return errors.As(err, &damage) && damage.File == name && strings.Contains(err.Error(), "repair")
			}
		}, true},
		{"a damaged log", func(t *testing.T, s *Store, _ *faultfs.FS) (func(), func(error) bool) {
			at := shale.ShippingOf(s.DB()).Position().Written - 10
			name := flipIn(t, s.fs, "db", ".wal", at)
			return func() { flipIn(t, s.fs, "db", name, at) }, func(err error) bool {
				var damage *shale.CorruptionError
				return errors.As(err, &damage) && damage.File == name
			}
		}, false},
		{"a full disk", func(t *testing.T, s *Store, faulty *faultfs.FS) (func(), func(error) bool) {
			faulty.Inject(func(op vfs.Op, name string, _ int64) error {
				if strings.Contains(name, localdir.RecordName) && op != vfs.OpOpen {
					return syscall.ENOSPC
				}
				return nil
			})
			return func() { faulty.Inject(nil) }, func(err error) bool {
				return errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), "make room on the local disk")
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			faulty := faultfs.New(vfs.NewMem(), nil)
			inTime(t, func(o *Options) { o.Store.FS = faulty }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
				time.Sleep(90 * time.Second)
				model := map[string]string{}
				put(t, s, model, "a", 100)
				end, check := c.begin(t, s, faulty)
				time.Sleep(10 * time.Minute)
				put(t, s, model, "b", 10)
				time.Sleep(10 * time.Minute)
				if got := events.kinds(); !slices.Equal(got, []EventKind{EventBackground}) {
					t.Errorf("events: %v, want one of work that fails in the background", got)
				} else if e := events.last(EventBackground); !check(e.Err) || e.Reason == "" {
					t.Errorf("the event: %q, %v", e.Reason, e.Err)
				}
				if now := s.Status(); !check(now.Failing) || now.Away != nil || !now.Since.IsZero() {
					t.Errorf("status: %+v", now)
				}
				if c.ships {
					sameMap(t, "restored meanwhile", restoredContents(t, b.Bucket), model)
				}
				end()
				time.Sleep(2 * time.Minute)
				if now := s.Status(); now.Failing != nil || now.Lag.Seq != now.Lag.Shipped {
					t.Errorf("status when it is over: %+v", now)
				}
				checkTables(t, b.Bucket, s)
				sameMap(t, "restored", restoredContents(t, b.Bucket), model)
				if got := events.kinds(); slices.Contains(got, EventAway) || slices.Contains(got, EventBack) {
					t.Errorf("events when it is over: %v", got)
				}
			})
		})
	}
}

// last returns the last event of a kind.
func (l *eventList) last(kind EventKind) (last Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			last = e
		}
	}
	return last
}

// TestStore_DamagedLog_Reopened damages a part of the log that was not shipped. When its writes are in tables and the
// store was opened again, shipping goes on without the log.
func TestStore_DamagedLog_Reopened(t *testing.T) {
	fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "a", 10)
	mustNil(t, s.Ship(t.Context()))
	put(t, s, model, "b", 10)
	flipIn(t, fsys, "db", ".wal", shale.ShippingOf(s.DB()).Position().Written-10)
	var damage *shale.CorruptionError
	if err := s.Ship(t.Context()); !errors.As(err, &damage) {
		t.Errorf("Ship = %v", err)
	}
	mustNil(t, s.DB().Flush(t.Context()))
	if err := s.Close(); !errors.As(err, &damage) {
		t.Errorf("Close = %v", err)
	}
	s = openStore(t, "db", b, manual(fsys))
	put(t, s, model, "c", 10)
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "restored", restoredContents(t, b), model)
}

// ingestSorted ingests n keys with a prefix, and puts them into model.
func ingestSorted(t testing.TB, s *Store, model map[string]string, prefix string, n int) {
	t.Helper()
	mustNil(t, s.DB().Ingest(t.Context(), func(yield func(k, v []byte) bool) {
		for i := range n {
			if !yield(fmt.Appendf(nil, "%s%04d", prefix, i), []byte(prefix)) {
				return
			}
		}
	}))
	for i := range n {
		model[fmt.Sprintf("%s%04d", prefix, i)] = prefix
	}
}

// TestStore_IngestionOnItsWay loses the machine when the mark of an ingestion is in the bucket and its tables are not.
// A restore goes up to the write before it: Lag says so all the time. When the step has come, every number can be
// restored.
func TestStore_IngestionOnItsWay(t *testing.T) {
	testenv.CheckLeaks(t)
	fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	states := map[uint64]map[string]string{}
	last := func() uint64 { return shale.ShippingOf(s.DB()).Position().LastSeq }
	write := func(prefix string, n int) {
		for i := range n {
			put(t, s, model, fmt.Sprint(prefix, i), 1)
			states[last()] = maps.Clone(model)
		}
	}
	write("a", 10)
	mustNil(t, s.Publish(t.Context()))
	write("b", 5)
	mustNil(t, s.Ship(t.Context()))
	before := last()
	ingestSorted(t, s, model, "in", 50)
	states[last()] = maps.Clone(model)
	write("c", 5)
	mustNil(t, s.shipAll(t.Context(), s.bucket))
	if lag := s.Lag(); lag.Shipped != before || lag.Seq != last() || lag.Time == 0 {
		t.Errorf("without the ingestion's tables: %+v, want %d shipped of %d", lag, before, last())
	}
	for seq := uint64(1); seq <= last(); seq++ {
		mem := vfs.NewMem()
		_, err := Restore(t.Context(), b, "to", At{Seq: seq}, &RestoreOptions{FS: mem})
		var refusal *PointError
		switch {
		case seq <= before && err == nil:
			sameMap(t, fmt.Sprint("restored to ", seq), contentsOf(t, mem, "to"), states[seq])
		case seq <= before || !errors.As(err, &refusal) || refusal.Before == nil || refusal.Before.Seq != before:
			t.Errorf("restore to %d, the ingestion is behind %d: %v", seq, before, err)
		}
	}
	mem := vfs.NewMem()
	r, err := Restore(t.Context(), b, "to", At{}, &RestoreOptions{FS: mem})
	mustNil(t, err)
	if r.At.Seq != before || r.Left.LastSeq != last() || !strings.Contains(r.Left.Why, "ingestion") {
		t.Errorf("restored %+v, want up to %d, and a word about the ingestion", r, before)
	}
	mustNil(t, s.Publish(t.Context()))
	if lag := s.Lag(); lag.Shipped != last() || lag.Time != 0 {
		t.Errorf("with the ingestion's tables: %+v", lag)
	}
	for seq := uint64(1); seq <= last(); seq++ {
		mem := vfs.NewMem()
		_, err := Restore(t.Context(), b, "to", At{Seq: seq}, &RestoreOptions{FS: mem})
		mustNil(t, err)
		sameMap(t, fmt.Sprint("restored to ", seq), contentsOf(t, mem, "to"), states[seq])
	}
}

// TestStore_StepKeepsToItsEpoch makes a step when the manifest still keeps the log of an earlier epoch, because a flush ended
// before the next log had begun. The step needs no log of the earlier writer: a restore would end at a gap in it.
func TestStore_StepKeepsToItsEpoch(t *testing.T) {
	fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "a", 5)
	mustNil(t, s.Ship(t.Context()))
	other := vfs.NewMem()
	_, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: other})
	mustNil(t, err)
	successor := openStore(t, "db", b, manual(other))
	h, err := successor.hold(t.Context(), successor.bucket)
	mustNil(t, err)
	defer h.Release()
	h.State().MinLog = base.FileNum(object.AnchorOf(s.epoch).Log + 1)
	mustNil(t, successor.publish.mu.take(t.Context()))
	step, _, err := successor.nextStep(t.Context(), successor.bucket, h)
	successor.publish.mu.release()
	mustNil(t, err)
	if first := base.FileNum(object.AnchorOf(successor.epoch).Log); step == nil || step.Edit.MinLog < first {
		t.Errorf("the step of epoch %d needs logs below %d: %+v", successor.epoch, first, step)
	}
}

// TestStore_GoesOnWithoutAnIngestion loses the machine when the mark of an ingestion is in the bucket and its tables are
// not, or when what an earlier process had not shipped is in no table of the bucket yet. The store that is restored goes on
// in the same bucket. It acknowledges nothing before a step has said that nothing is missed, also after a crash.
func TestStore_GoesOnWithoutAnIngestion(t *testing.T) {
	testenv.CheckLeaks(t)
	for mode := range 8 {
		strict, crashes, gap := mode&1 > 0, mode&2 > 0, mode&4 > 0
		what := fmt.Sprintf("strict %v, crashes %v, gap %v", strict, crashes, gap)
		fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		s := openStore(t, "db", b, manual(fsys))
		put(t, s, model, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		put(t, s, model, "b", 5)
		mustNil(t, s.Ship(t.Context()))
		gone := maps.Clone(model)
		if gap {
			put(t, s, gone, "unshipped", 5)
			s = openStore(t, "db", b, manual(fsys.Crash(vfs.CrashConfig{})))
		} else {
			ingestSorted(t, s, gone, "in", 50)
		}
		put(t, s, gone, "c", 5)
		mustNil(t, s.shipAll(t.Context(), s.bucket))

		other := vfs.NewMem()
		r, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: other})
		mustNil(t, err)
		if r.Left.Why == "" || !r.Left.Lost || r.At.Seq != 15 {
			t.Fatalf("%s: restored %+v", what, r)
		}
		o := manual(other)
		o.Strict = strict
		successor := openStore(t, "db", b, o)
		sameMap(t, what+": goes on with", contents(t, successor.DB()), model)
		if crashes {
			for range 2 {
				other = other.Crash(vfs.CrashConfig{})
				o.Store.FS = other
				successor = openStore(t, "db", b, o)
			}
		}
		if lag := successor.Lag(); lag.Shipped >= lag.Seq {
			t.Errorf("%s: before the first step: %+v", what, lag)
		}
		put(t, successor, model, "d", 5)
		if !strict {
			mustNil(t, successor.Ship(t.Context()))
		}
		sameMap(t, what+": restored", restoredContents(t, b), model)
		if err := s.Ship(t.Context()); err == nil {
			mustNil(t, s.DB().Put([]byte("zombie"), nil))
			if err = s.Ship(t.Context()); !errors.Is(err, ErrFenced) {
				t.Errorf("%s: the old process ships: %v", what, err)
			}
		}
		mustNil(t, successor.DB().Flush(t.Context()))
		mustNil(t, successor.Publish(t.Context()))
		mustNil(t, successor.Close())
		sameMap(t, what+": restored in the end", restoredContents(t, b), model)
		report, err := Verify(t.Context(), b, true)
		if err != nil || len(report.Findings) > 0 {
			t.Errorf("%s: Verify: %v, %v", what, report.Findings, err)
		}
	}
}

// TestStore_IngestionOfAnEarlierProcess ends a process that has shipped the mark of an ingestion and not published its
// tables. The next one acknowledges nothing before these are in the bucket.
func TestStore_IngestionOfAnEarlierProcess(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, strict := range []bool{true, false} {
		fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
		o := manual(fsys)
		o.testing.closeWait = 10 * time.Millisecond
		s := openStore(t, "db", b, o)
		put(t, s, model, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		ingestSorted(t, s, model, "in", 50)
		put(t, s, model, "b", 5)
		b.Refuse("put", object.TableFolder)
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "not all of it is in the bucket") {
			t.Errorf("strict %v: Close: %v", strict, err)
		}
		b.Hook(nil, nil)
		o = manual(fsys)
		o.Strict = strict
		s = openStore(t, "db", b, o)
		if lag := s.Lag(); lag.Shipped >= lag.Seq {
			t.Errorf("strict %v: opened again: %+v", strict, lag)
		}
		if strict {
			put(t, s, model, "c", 1)
		} else {
			mustNil(t, s.Ship(t.Context()))
		}
		sameMap(t, fmt.Sprintf("strict %v: restored", strict), restoredContents(t, b.Bucket), model)
	}
}

// TestStore_WritersWaitForAnIngestion uploads the tables of an ingestion for ten minutes. With MaxLag writers wait for
// them after its time, and go on when the step is there.
func TestStore_WritersWaitForAnIngestion(t *testing.T) {
	inTime(t, func(o *Options) { o.MaxLag = 30 * time.Second }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		time.Sleep(90 * time.Second)
		model := map[string]string{}
		put(t, s, model, "a", 10)
		time.Sleep(5 * time.Second)
		b.Set(remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
			for range 600 * strings.Count(name, object.TableFolder) {
				time.Sleep(time.Second)
				Progress(ctx)
			}
			return b.Bucket.Put(ctx, name, body, size, sum, absent)
		}})
		ingestSorted(t, s, model, "in", 50)
		begun := time.Now()
		longest := time.Duration(0)
		for i := range 100 {
			start := time.Now()
			put(t, s, model, fmt.Sprint("b", i), 1)
			longest = max(longest, time.Since(start))
			time.Sleep(time.Second)
		}
		if longest < 9*time.Minute || time.Since(begun) < 11*time.Minute {
			t.Errorf("the longest write took %v; it was to wait for the tables", longest)
		}
		if got := events.kinds(); !slices.Equal(got, []EventKind{EventWait, EventGoOn}) {
			t.Errorf("events: %v", got)
		}
		time.Sleep(2 * time.Second)
		sameMap(t, "restored", restoredContents(t, b.Bucket), model)
	})
}

// The directory is replaced by another one while the store is open. What is there now is neither shipped
// nor written to.
func TestStore_DirectoryReplaced(t *testing.T) {
	mem := vfs.NewMem()
	inTime(t, func(o *Options) { o.Store.FS = mem }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		model := map[string]string{}
		put(t, s, model, "a", 20)
		mustNil(t, s.Ship(t.Context()))
		mustNil(t, mem.Rename("db", "moved"))
		mustNil(t, mem.MkdirAll("db"))
		if err := s.DB().Sync(); !errors.Is(err, shale.ErrMoved) {
			t.Errorf("Sync = %v, want ErrMoved", err)
		}
		for what, err := range map[string]error{"Ship": s.Ship(t.Context()), "Publish": s.Publish(t.Context())} {
			if !errors.Is(err, shale.ErrMoved) {
				t.Errorf("%s = %v, want ErrMoved", what, err)
			}
		}
		time.Sleep(time.Hour)
		if names, err := mem.List("db"); err != nil || len(names) > 0 {
			t.Errorf("the other directory has %q, %v", names, err)
		}
		if err := s.Close(); !errors.Is(err, shale.ErrMoved) {
			t.Errorf("Close = %v, want ErrMoved", err)
		}
		sameMap(t, "restored", restoredContents(t, b.Bucket), model)
	})
}

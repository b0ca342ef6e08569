package shale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A partsStore is a store that compacts only by Compact.
type partsStore struct {
	*DB
	mem       *vfs.Mem
	faults    *faultfs.FS
	snapshots []*Snapshot
}

// partsStoreOf fills a store with random puts and deletions, with snapshots between them and
// flushes after them. A compaction after the first ones gives the last level tables, at whose
// bounds the next compaction can be cut. The same seed gives the same tables.
func partsStoreOf(t *testing.T, seed uint64) *partsStore {
	s := &partsStore{mem: vfs.NewMem()}
	s.faults = faultfs.New(s.mem, nil)
	opts := small()
	opts.FS, opts.TableSize, opts.CompactionWorkers, opts.OnEvent = s.faults, 4<<10, -1, func(Event) {}
	opts.testing.seed = 1
	s.DB = openTest(t, opts)
	r := rand.New(rand.NewPCG(seed, 2))
	for round := range 4 + r.IntN(4) {
		for range 200 + r.IntN(800) {
			key := fmt.Sprintf("key%04d", r.IntN(1500))
			if r.IntN(5) == 0 {
				mustDelete(t, s, key)
			} else {
				mustPut(t, s, key, fmt.Sprintf("%x", r.Uint64()))
			}
			if r.IntN(1000) == 0 {
				s.snapshots = append(s.snapshots, mustSnapshot(t, s.DB))
			}
		}
		mustFlush(t, s.DB)
		if round == 2 {
			if err := s.compact(1); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// compact calls Compact in as many parts as given, or less. Compact itself takes no worker and leaves
// one to level 0, unless a step of it is a compaction of level 0.
func (s *partsStore) compact(parts int) error {
	s.opts.CompactionWorkers = parts
	defer func() { s.opts.CompactionWorkers = -1 }()
	return s.Compact(context.Background(), Range{})
}

// state returns all that readers see: the entries of the store and of its snapshots, forward, and
// which lookups find something.
func (s *partsStore) state(t *testing.T) string {
	var b strings.Builder
	readers := []Reader{s.DB}
	for _, snap := range s.snapshots {
		readers = append(readers, snap)
	}
	for _, r := range readers {
		fmt.Fprintln(&b, scanAll(t, r, Range{}))
		for i := range 1500 {
			if ok, err := r.Has(fmt.Appendf(nil, "key%04d", i)); err != nil {
				t.Fatal(err)
			} else if ok {
				fmt.Fprint(&b, i, " ")
			}
		}
	}
	return b.String()
}

// Whatever operation of a compaction in parts fails, the store is as before: all parts have ended,
// their tables are removed, and their workers are free. The next Compact succeeds.
func TestCompact_PartFails(t *testing.T) {
	seed, places := testenv.Seed(t), int64(3)
	if testenv.Race {
		places = 1 // they have the same goroutines
	}
	failures := int64(0)
	for _, kind := range []struct {
		op  vfs.Op
		err error
	}{{vfs.OpCreate, syscall.EMFILE}, {vfs.OpWrite, syscall.EIO}, {vfs.OpSync, syscall.EIO}, {vfs.OpRead, syscall.EIO}, {vfs.OpSyncDir, syscall.EIO}} {
		for k := range places {
			s := partsStoreOf(t, seed)
			before, tables := s.state(t), len(s.Inspect().Tables())
			var failed atomic.Bool
			fail := faultfs.FailAt(3*k+1, kind.err, kind.op)
			s.faults.Inject(func(op vfs.Op, name string, n int64) error {
				if !strings.HasSuffix(name, ".sst") && op != vfs.OpSyncDir || s.scheduler.Busy() == 0 {
					return nil // not of a part
				}
				err := fail(op, name, n)
				failed.Store(failed.Load() || err != nil)
				return err
			})
			err := s.compact(4)
			s.faults.Inject(nil)
			if err != nil {
				failures++
			}
			if failed.Load() && !errors.Is(err, kind.err) && kind.op != vfs.OpRead { // a read ahead is tried again
				t.Errorf("%v %d fails: Compact returns %v, want %v", kind.op, k, err, kind.err)
			}
			if err != nil {
				if on, in := tablesOnDisk(t, s.DB, s.mem), len(s.Inspect().Tables()); on != in {
					t.Errorf("%v %d fails: %d tables on disk, %d in the tree, which had %d", kind.op, k, on, in, tables)
				}
			}
			if n := s.scheduler.Busy(); n != 0 {
				t.Errorf("%v %d fails: %d workers stay busy", kind.op, k, n)
			}
			if s.state(t) != before {
				t.Errorf("%v %d fails: readers see something else", kind.op, k)
			}
			if err := s.compact(4); err != nil || s.state(t) != before {
				t.Errorf("%v %d fails: the next Compact: %v", kind.op, k, err)
			}
			for _, snap := range s.snapshots {
				_ = snap.Close()
			}
			closeTest(t, s.DB)
		}
	}
	if failures < 5*places/3 {
		t.Errorf("only %d of %d calls of Compact failed", failures, 5*places)
	}
}

// A part that ends gives its worker back while others go on, so that another compaction may begin.
func TestCompact_PartGivesWorkerBack(t *testing.T) {
	s := partsStoreOf(t, 7)
	for _, snap := range s.snapshots {
		_ = snap.Close()
	}
	// The first part to sync a table waits. All others end. One worker may be that of a compaction
	// of level 0 that Compact carries out.
	held, resume := make(chan struct{}), make(chan struct{})
	var holds atomic.Bool
	s.faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".sst") && s.scheduler.Busy() > 1 && holds.CompareAndSwap(false, true) {
			close(held)
			<-resume
		}
		return nil
	})
	done := make(chan error)
	go func() { done <- s.compact(4) }()
	select {
	case <-held:
		defer func() {
			close(resume)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		testenv.WaitFor(t, "all parts but one to give their workers back", func() bool { return s.scheduler.Busy() <= 1 })
	case err := <-done:
		t.Fatalf("Compact was not cut into parts: %v", err)
	}
}

// The iterator of a part opens no table that begins behind the part: where tables are in a bucket, that is a GET in vain.
func TestCompact_PartOpensItsTables(t *testing.T) {
	s := partsStoreOf(t, 3)
	if err := s.compact(1); err != nil {
		t.Fatal(err)
	}
	runs := s.mems.View().Runs
	tables := runs[len(runs)-1].Tables
	if len(tables) < 4 {
		t.Fatalf("%d tables", len(tables))
	}
	in := compaction.Input{}
	for _, table := range tables {
		in.Tables = append(in.Tables, table.Meta)
	}
	for n := range tables {
		var upper []byte // nil: the part has all tables
		want := len(tables)
		if n > 0 {
			upper, want = tables[n].Meta.Smallest, n
		}
		it := s.planIterator(&compaction.Plan{Inputs: []compaction.Input{in}}, upper)
		var entries, expected uint64
		for kv := it.First(); kv != nil; kv = it.Next() {
			entries++
		}
		for _, table := range tables[:want] {
			expected += table.Meta.Entries
		}
		if err := errors.Join(it.Err(), it.Close()); err != nil || entries != expected {
			t.Errorf("up to table %d: %d entries, %v, want the %d before it", n, entries, err, expected)
		}
	}
}

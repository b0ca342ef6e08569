package shale

import (
	"bytes"
	"context"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// An unreadStore is a store whose tables can't be read for a moment.
type unreadStore struct {
	*DB
	t    *testing.T
	mem  *vfs.Mem
	disk *faultfs.FS
	opts *Options
	left atomic.Int64 // operations that still fail
}

// unreadOptions are those of an unreadStore, which lies in mem.
func unreadOptions(mem *vfs.Mem) *Options {
	o := small()
	o.FS, o.CompactionWorkers, o.FilterBits = mem, -1, 20
	o.MemtableSize, o.BlockSize = 1<<20, 256 // the read of a table's end has neither filter nor index
	o.OnEvent = func(Event) {}
	return o
}

// unreadTables makes the files with which all stores of a test begin.
func unreadTables(t *testing.T) *vfs.Mem {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", unreadOptions(mem))
	for round := range 6 {
		fill(t, db, 3000, round)
		mustFlush(t, db)
	}
	closeTest(t, db)
	return mem
}

// newUnread returns a copy of the store in tables, with changed options. It is not open.
func newUnread(t *testing.T, tables *vfs.Mem, change func(o *Options)) *unreadStore {
	mem := tables.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
	s := &unreadStore{t: t, mem: mem, disk: faultfs.New(mem, nil), opts: unreadOptions(mem)}
	s.opts.FS = s.disk
	change(s.opts)
	return s
}

// fail has the next n reads fail that a function makes, given by a part of its name.
func (s *unreadStore) fail(n int64, by string, err error) {
	s.left.Store(n)
	s.disk.Inject(func(op vfs.Op, _ string, _ int64) error {
		return errorIf(op == vfs.OpRead && bytes.Contains(debug.Stack(), []byte(by)) && s.left.Add(-1) >= 0, err)
	})
}

// wantAsFresh waits, and compares what is in memory with what an Open without faults has there.
func (s *unreadStore) wantAsFresh(when string) {
	s.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if n := s.left.Load(); n > 0 {
		s.t.Errorf("%s: %d operations should still fail", when, n)
	}
	o := *s.opts
	o.FS = s.mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
	o.ReadOnly = true
	fresh := mustOpen(s.t, "db", &o)
	defer closeTest(s.t, fresh)
	synctest.Wait()
	want, got := fresh.Metrics(), s.Metrics()
	if got.FilterMemory != want.FilterMemory || got.IndexMemory != want.IndexMemory || want.FilterMemory == 0 {
		s.t.Errorf("%s: %d bytes of filters and %d of indexes are in memory; a store without faults has %d and %d",
			when, got.FilterMemory, got.IndexMemory, want.FilterMemory, want.IndexMemory)
	}
	wantTables := fresh.Inspect().Tables()
	for i, got := range s.Inspect().Tables() {
		if want := wantTables[i]; got.FilterFile != want.FilterFile || got.FilterKind != want.FilterKind || got.FilterBytes != want.FilterBytes {
			s.t.Errorf("%s: table %d has the filter %s of %d bytes in %q, want %s of %d in %q", when, got.Number,
				got.FilterKind, got.FilterBytes, got.FilterFile, want.FilterKind, want.FilterBytes, want.FilterFile)
		}
	}
}

// unread runs a test in an hour of its own.
func unread(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Filters and indexes that could not be read for a moment come back by themselves, whoever has met the
// error: the goroutine that reads what Open has left for later, Open itself, or a flush.
func TestFilters_UnreadComeBack(t *testing.T) {
	tables, errs := unreadTables(t), []error{syscall.EMFILE, syscall.EIO, syscall.EINTR}
	if testenv.Race {
		errs = errs[:1] // the others have the same goroutines
	}
	for _, err := range errs {
		for by, reader := range map[string]string{"a filter": "LoadFilter(", "an index": "LoadIndex("} {
			unread(t, by+" left for later, "+err.Error(), func(t *testing.T) {
				s := newUnread(t, tables, func(o *Options) {})
				s.fail(4, reader, err)
				s.DB = mustOpen(t, "db", s.opts)
				s.wantAsFresh("after Open")
				closeTest(t, s.DB)
			})
		}
		unread(t, "when a flush opens its table, "+err.Error(), func(t *testing.T) {
			s := newUnread(t, tables, func(o *Options) { o.FilterBits, o.MemtableSize = 64, 16<<20 })
			s.DB = mustOpen(t, "db", s.opts)
			for i := range 20_000 { // a filter of more than 64 KiB, which takes a read of its own
				mustPut(t, s.DB, valueOf([]byte{byte(i), byte(i >> 8)}), "")
			}
			s.fail(1, "loadForOpen(", err)
			mustFlush(t, s.DB)
			s.wantAsFresh("after the flush")
			closeTest(t, s.DB)
		})
		unread(t, "a sidecar, "+err.Error(), func(t *testing.T) {
			s := newUnread(t, tables, func(o *Options) { o.Tuning.FilterHash = XXH3 })
			s.DB = mustOpen(t, "db", s.opts)
			if r, err := s.Inspect().RebuildFilters(context.Background()); err != nil || r.Rebuilt == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			closeTest(t, s.DB)
			s.fail(4, "LoadFilter(", err)
			s.DB = mustOpen(t, "db", s.opts)
			s.wantAsFresh("after Open")
			closeTest(t, s.DB)
		})
	}
}

// RebuildFilters does not wait until the store reads again by itself what could not be read, and says how
// many filters it has brought back.
func TestRebuildFilters_ReloadsUnread(t *testing.T) {
	tables := unreadTables(t)
	synctest.Test(t, func(t *testing.T) {
		s := newUnread(t, tables, func(o *Options) {})
		s.fail(1<<40, "LoadFilter(", syscall.EIO)
		s.DB = mustOpen(t, "db", s.opts)
		time.Sleep(time.Minute) // the store waits for seconds before it tries again
		synctest.Wait()
		tables, without := len(s.Inspect().Tables()), 0
		for _, table := range s.Inspect().Tables() {
			if table.FilterBytes == 0 {
				without++
			}
		}
		if without < tables/2 {
			t.Fatalf("%d of %d filters are not in memory", without, tables)
		}
		s.disk.Inject(nil)
		r, err := s.Inspect().RebuildFilters(context.Background())
		if err != nil || r.Reloaded != without || r.Rebuilt != 0 || r.Tables != tables {
			t.Errorf("RebuildFilters = %+v, %v; want %d reloaded", r, err, without)
		}
		s.left.Store(0)
		s.wantAsFresh("after RebuildFilters")
		closeTest(t, s.DB)
	})
}

// A handle that follows loses no sidecar of its writer either.
func TestAdvance_UnreadSidecar(t *testing.T) {
	tables := unreadTables(t)
	synctest.Test(t, func(t *testing.T) {
		s := newUnread(t, tables, func(o *Options) {})
		ro := *s.opts
		ro.ReadOnly = true
		s.opts.FS, s.opts.Tuning.FilterHash = s.mem, XXH3
		writer := mustOpen(t, "db", s.opts)
		s.DB = mustOpen(t, "db", &ro)
		if r, err := writer.Inspect().RebuildFilters(context.Background()); err != nil || r.Rebuilt == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		s.fail(3, "ReadSidecar(", syscall.EIO)
		if _, err := s.Advance(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.wantAsFresh("after Advance")
		closeTest(t, s.DB)
		closeTest(t, writer)
	})
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// gateErrors are errors of a program that mean something else when they come from the store's own disk.
var gateErrors = []error{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, context.Canceled, context.DeadlineExceeded, ErrClosed, ErrReadOnly,
	fs.ErrNotExist, &CorruptionError{File: "000001.sst", Offset: 1, Part: "data block", Err: errors.New("elsewhere")},
	&faultfs.Fault{Err: syscall.ENOSPC},
}

// A refusing is a store whose gate refuses with an error while one is set.
type refusing struct {
	*DB
	opts  *Options
	error atomic.Pointer[error]
}

func newRefusing(t *testing.T) *refusing {
	r := &refusing{opts: small()}
	r.opts.FS, r.opts.CompactionWorkers = vfs.NewMem(), -1
	r.opts.Logger = slog.New(slog.DiscardHandler)
	r.opts.Shipping.Gate = func(LogPosition) error {
		if err := r.error.Load(); err != nil {
			return fmt.Errorf("copy the log: %w", *err)
		}
		return nil
	}
	r.DB = mustOpen(t, "db", r.opts)
	return r
}

// refuse has one put refused.
func (r *refusing) refuse(t *testing.T, err error, key, value string) {
	t.Helper()
	r.error.Store(&err)
	if got := r.Put([]byte(key), []byte(value)); !errors.Is(got, ErrReadOnly) || !errors.Is(got, err) {
		t.Fatalf("a put that the gate refuses: %v", got)
	}
	r.error.Store(nil)
}

// stillRefused waits longer than the store waits before it tries to take writes again by itself.
func (r *refusing) stillRefused(t *testing.T, err error) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if got := r.Put([]byte("later"), nil); !errors.Is(got, ErrReadOnly) || !errors.Is(got, err) {
		t.Errorf("a minute later: %v", got)
	}
}

// eachGateError runs a test with a store, and an hour of its own, for each error.
func eachGateError(t *testing.T, test func(t *testing.T, r *refusing, err error)) {
	for _, err := range gateErrors {
		synctest.Test(t, func(t *testing.T) {
			r := newRefusing(t)
			mustPut(t, r, "before", "1")
			test(t, r, err)
			if t.Failed() {
				t.Fatalf("the gate returned %v", err)
			}
		})
	}
}

// Whatever the error of the gate wraps: the store does not take it for a failure of its own disk that may
// pass. Once Resume has succeeded, the refused write is in no store, checkpoint or follower, and never
// comes back.
func TestCommitGate_AnyErrorLasts(t *testing.T) {
	eachGateError(t, func(t *testing.T, r *refusing, err error) {
		ro := *r.opts
		ro.ReadOnly = true
		follower := mustOpen(t, "db", &ro)
		r.refuse(t, err, "refused", "1")
		r.stillRefused(t, err)
		if err := r.Checkpoint("early"); !errors.Is(err, ErrReadOnly) {
			t.Errorf("checkpoint: %v", err)
		}
		if info, err := r.Inspect().ExportFilters(t.Context(), new(discard)); err != nil || info.Memtables != 1 {
			t.Errorf("the filters of a store that takes no writes: %+v, %v", info, err)
		}
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
		mustPut(t, r, "after", "1")
		if err := r.Checkpoint("copy"); err != nil {
			t.Fatal(err)
		}
		if _, err := follower.Advance(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantGet(t, follower, "after", "1", true)
		wantGet(t, follower, "refused", "", false)
		closeTest(t, follower)
		closeTest(t, r.DB)
		for _, dir := range []string{"db", "copy"} {
			db := mustOpen(t, dir, r.opts)
			wantGet(t, db, "before", "1", true)
			wantGet(t, db, "after", "1", true)
			wantGet(t, db, "refused", "", false)
			closeTest(t, db)
		}
	})
}

// A call that meets the refusal of another goroutine's write says that the store is read-only, also
// if the program's error wraps ErrClosed.
func TestCommitGate_ClosedIsNotTheStore(t *testing.T) {
	eachGateError(t, func(t *testing.T, r *refusing, err error) {
		r.refuse(t, err, "refused", "1")
		if err := callError("checkpoint", r.Err()); !errors.Is(err, ErrReadOnly) || err == ErrClosed {
			t.Errorf("a checkpoint that meets %v: %v", r.Err(), err)
		}
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
		closeTest(t, r.DB)
	})
}

// discard is a Writer that keeps nothing.
type discard struct{}

func (*discard) Write(p []byte) (int, error) { return len(p), nil }

// The error of an ingestion says whether it was made: by ErrIngested if only its acknowledgement is
// missing, and not at all if nothing was done.
func TestCommitGate_IngestSaysWhatWasDone(t *testing.T) {
	eachGateError(t, func(t *testing.T, r *refusing, err error) {
		r.error.Store(&err)
		got := r.Ingest(t.Context(), sortedList("a", "b"))
		if !errors.Is(got, ErrIngested) || !errors.Is(got, ErrReadOnly) || !errors.Is(got, err) || errors.Is(got, ErrIngestInDoubt) {
			t.Errorf("refused itself: %v", got)
		}
		if n := r.Metrics().Ingests; n != 1 {
			t.Errorf("%d ingestions are counted", n)
		}
		wantHas(t, r.DB, "b", true)
		r.error.Store(nil)
		r.stillRefused(t, err)
		if got := r.Ingest(t.Context(), sortedList("c")); !errors.Is(got, err) || errors.Is(got, ErrIngested) || errors.Is(got, ErrIngestInDoubt) {
			t.Errorf("after a refusal: %v", got)
		}
		if err := r.Resume(); err != nil {
			t.Fatal(err)
		}
		closeTest(t, r.DB)
		db := mustOpen(t, "db", r.opts)
		wantHas(t, db, "a", true)
		wantHas(t, db, "c", false)
		closeTest(t, db)
	})
}

// An ingestion whose mark can't be written is there. Where a gate has to let it pass, nobody could ask
// it, and so the ingestion is not acknowledged.
func TestCommitGate_IngestWithoutMark(t *testing.T) {
	for _, gate := range []bool{true, false} {
		disk := faultfs.New(vfs.NewMem(), nil)
		o := small()
		o.FS, o.Durability = disk, SyncEach
		o.testing.noMap = true
		asked := 0
		if gate {
			o.Shipping.Gate = func(LogPosition) error { asked++; return nil }
		}
		db := mustOpen(t, "db", o)
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf(op == vfs.OpWrite && strings.HasSuffix(name, ".wal"), syscall.EIO)
		})
		err := db.Ingest(t.Context(), sortedList("a"))
		if (err != nil) != gate || gate && (!errors.Is(err, ErrIngested) || !errors.Is(err, syscall.EIO)) || asked > 0 {
			t.Errorf("with a gate (%v): %v; it was asked %d times", gate, err, asked)
		}
		disk.Inject(nil)
		wantHas(t, db, "a", true)
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		db = mustOpen(t, "db", o)
		wantHas(t, db, "a", true)
		closeTest(t, db)
	}
}

// If the manifest can't be written, nobody knows whether the ingestion is there, and its error says so.
func TestIngest_InDoubt(t *testing.T) {
	disk := faultfs.New(vfs.NewMem(), nil)
	o := small()
	o.FS = disk
	db := mustOpen(t, "db", o)
	disk.Inject(func(op vfs.Op, name string, _ int64) error {
		return errorIf(op == vfs.OpSync && strings.Contains(name, "MANIFEST"), syscall.EIO)
	})
	if err := db.Ingest(t.Context(), sortedList("a")); !errors.Is(err, ErrIngestInDoubt) || !errors.Is(err, syscall.EIO) || errors.Is(err, ErrIngested) {
		t.Errorf("without a manifest: %v", err)
	}
	disk.Inject(nil)
	wantHas(t, db, "a", false)
	mustPut(t, db, "b", "1")
	mustFlush(t, db) // in a new manifest, without the ingestion
	closeTest(t, db)
	db = mustOpen(t, "db", o)
	wantHas(t, db, "a", false)
	wantHas(t, db, "b", true)
	closeTest(t, db)
}

// The sync in the background fails after a gate has refused a commit. An event says so, since writes
// stay refused for the other reason.
func TestCommitGate_SyncFailsToo(t *testing.T) {
	var armed atomic.Bool
	refused := make(chan struct{})
	told := make(chan error, 1)
	faults := faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
		if armed.Load() && op == vfs.OpSync && strings.HasSuffix(name, ".wal") {
			<-refused
			return syscall.EIO
		}
		return nil
	})
	errGate := errors.New("no")
	db := openTest(t, &Options{FS: faults, Durability: SyncPeriodic, SyncEvery: time.Millisecond,
		Shipping: ShippingOptions{Gate: func(LogPosition) error { return errGate }},
		OnEvent: func(e Event) {
			if e.Kind == EventBackgroundError {
				told <- e.Err
			}
		},
		testing: testOptions{noMap: true}})
	armed.Store(true)
	if err := db.Put([]byte("k"), []byte("v")); !errors.Is(err, errGate) {
		t.Fatalf("Put = %v", err)
	}
	close(refused)
	select {
	case err := <-told:
		if !errors.Is(err, syscall.EIO) || errors.Is(err, errGate) {
			t.Errorf("the event tells of %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("no event tells of the disk")
	}
	if err := db.Err(); !errors.Is(err, errGate) {
		t.Errorf("writes are refused because of %v", err)
	}
	if err := db.Close(); !errors.Is(err, errGate) {
		t.Errorf("Close = %v", err)
	}
}

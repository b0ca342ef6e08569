package shale

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// After Fence no write is taken, whatever else fails or is tried, until another Open. Reads go on, and
// Close seals the log as ever.
func TestFence_IsFinal(t *testing.T) {
	cause, later := errors.New("another writer"), errors.New("a third writer")
	var events []Event
	o := small()
	o.FS = vfs.NewMem()
	o.OnEvent = func(e Event) {
		if e.Kind == EventReadOnly || e.Kind == EventResumed {
			events = append(events, e)
		}
	}
	db := mustOpen(t, "db", o)
	mustPut(t, db, "k", "v")
	snap := mustSnapshot(t, db)
	ShippingOf(db).Fence(cause)
	ShippingOf(db).Fence(later)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, cause) || errors.Is(err, later) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, putErr := db.PutIfAbsent([]byte("x"), nil)
	refused("PutIfAbsent", putErr)
	refused("Put", db.Put([]byte("k"), []byte("w")))
	refused("Ingest", db.Ingest(context.Background(), sortedList("a")))
	refused("Flush", db.Flush(context.Background()))
	refused("Compact", db.Compact(context.Background(), Range{}))
	refused("Checkpoint", db.Checkpoint("copy"))
	refused("Resume", db.Resume())
	_ = db.health.LogFailed(syscall.ENOSPC)
	_ = db.health.LogFailed(errors.New("and the disk fails"))
	db.health.Nudge()
	refused("Resume after another failure", db.Resume())
	refused("Err", db.Err())
	wantGet(t, db, "k", "v", true)
	wantGet(t, snap, "k", "v", true)
	if h, err := ShippingOf(db).Hold(); err != nil {
		t.Errorf("Hold: %v", err)
	} else {
		h.Release()
	}
	snap.Close()
	closeTest(t, db)
	if len(events) != 1 || events[0].Kind != EventReadOnly || !errors.Is(events[0].Err, cause) {
		t.Errorf("events: %v", events)
	}
	ShippingOf(db).Fence(cause) // of a closed store: nothing

	db = mustOpen(t, "db", o)
	if replayed := db.logs.Count(); replayed != 2 {
		t.Errorf("%d logs, with the one that the fenced store has sealed", replayed)
	}
	wantGet(t, db, "k", "v", true)
	mustPut(t, db, "k", "w")
	closeTest(t, db)
}

// A fence replaces a failure that may pass, and one that lasts. It does not hide that the log may be
// damaged: Close does not seal that log.
func TestFence_AfterFailure(t *testing.T) {
	cause := errors.New("another writer")
	for _, failure := range []error{syscall.ENOSPC, errors.New("a write failed")} {
		o := small()
		o.FS = vfs.NewMem()
		db := mustOpen(t, "db", o)
		mustPut(t, db, "k", "v")
		_ = db.health.LogFailed(failure)
		ShippingOf(db).Fence(cause)
		if err := db.Resume(); !errors.Is(err, cause) {
			t.Errorf("Resume: %v", err)
		}
		if lasting := !errors.Is(failure, syscall.ENOSPC); db.logBroken() != lasting {
			t.Errorf("the log counts as broken: %v, after %v", db.logBroken(), failure)
		}
		if err := db.Close(); err != nil && !errors.Is(err, cause) {
			t.Errorf("Close: %v", err)
		}
		db = mustOpen(t, "db", o)
		wantGet(t, db, "k", "v", true)
		closeTest(t, db)
	}
}

// A store that was opened read-only takes no writes already.
func TestFence_ReadOnly(t *testing.T) {
	o := small()
	o.FS = vfs.NewMem()
	closeTest(t, mustOpen(t, "db", o))
	o.ReadOnly = true
	db := mustOpen(t, "db", o)
	ShippingOf(db).Fence(nil)
	if err := db.Err(); err != nil {
		t.Error(err)
	}
	closeTest(t, db)
	o.ReadOnly = false
	db = mustOpen(t, "db", o)
	ShippingOf(db).Fence(nil)
	if err := db.Put([]byte("k"), nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("after Fence(nil): %v", err)
	}
	closeTest(t, db)
}

package shale

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// contextCalls are all calls that take a context.
var contextCalls = map[string]func(ctx context.Context, db *DB) error{
	"Changes": func(ctx context.Context, db *DB) error {
		last := uint64(db.commits.Visible())
		for c, err := range db.Changes(ctx, last-min(last, 50)) {
			if err != nil || c.Last == last {
				return err
			}
		}
		return errors.New("the feed has ended without an error")
	},
	"Advance": func(ctx context.Context, db *DB) error { _, err := db.Advance(ctx); return err },
	"Compact": func(ctx context.Context, db *DB) error { return db.Compact(ctx, Range{}) },
	"ExportFilters": func(ctx context.Context, db *DB) error {
		_, err := db.Inspect().ExportFilters(ctx, io.Discard)
		return err
	},
	"Flush":          func(ctx context.Context, db *DB) error { return db.Flush(ctx) },
	"Ingest":         func(ctx context.Context, db *DB) error { return db.Ingest(ctx, sortedKeys(0, 100, "ingested")) },
	"RaiseFileNum":   func(ctx context.Context, db *DB) error { return ShippingOf(db).RaiseFileNum(ctx, 1<<36) },
	"RebuildFilters": func(ctx context.Context, db *DB) error { _, err := db.Inspect().RebuildFilters(ctx); return err },
	"Update": func(ctx context.Context, db *DB) error {
		return db.Update(ctx, func(tx *Txn) error { return tx.Put([]byte("written"), nil) })
	},
	"Verify": func(ctx context.Context, db *DB) error { return db.Verify(ctx) },
	"Write": func(ctx context.Context, db *DB) error {
		var b Batch
		if err := b.Put([]byte("written"), nil); err != nil {
			return err
		}
		return db.Write(ctx, &b)
	},
}

// Each method with a context has a row in contextCalls.
func TestContexts_EveryCall(t *testing.T) {
	want := reflect.TypeFor[context.Context]()
	db := reflect.TypeFor[*DB]()
	for i := range db.NumMethod() {
		m := db.Method(i)
		takes := m.Type.NumIn() > 1 && m.Type.In(1) == want
		if _, row := contextCalls[m.Name]; takes != row {
			t.Errorf("%s takes a context: %v; it has a row: %v", m.Name, takes, row)
		}
	}
}

// A contextStore is a store with tables whose filters are not those that its options call for. What a
// call meets on disk can be watched.
type contextStore struct {
	*DB
	disk *faultfs.FS
}

func openForContexts(t *testing.T, call string, filled bool) contextStore {
	t.Helper()
	mem := vfs.NewMem()
	o := small()
	o.FS, o.Tuning.FilterHash, o.CompactionWorkers, o.BlockSize, o.TableSize = mem, Murmur3, -1, 512, 16<<10
	db := mustOpen(t, "db", o)
	if filled {
		for round := range 3 {
			fill(t, db, 2000, round)
			mustFlush(t, db)
		}
		fill(t, db, 100, 3)
	}
	s := contextStore{disk: faultfs.New(mem, nil)}
	o.FS, o.Tuning.FilterHash = s.disk, XXH3
	if call == "Changes" {
		o.KeepLog = 1 << 20 // else a flush in the background may take the changes away
	}
	if call == "Advance" {
		o.ReadOnly = true
		s.DB = mustOpen(t, "db", o)
		t.Cleanup(func() { closeTest(t, db) })
		fill(t, db, 100, 4)
	} else {
		closeTest(t, db)
		s.DB = mustOpen(t, "db", o)
	}
	t.Cleanup(func() { closeTest(t, s.DB) })
	return s
}

// wantContextError checks the one way in which contexts end calls.
func wantContextError(t *testing.T, call string, got, err, cause error) {
	t.Helper()
	switch {
	case !errors.Is(got, err) || !errors.Is(got, cause):
		t.Errorf("%s: %v, want an error that is %v and wraps the cause %v", call, got, err, cause)
	case strings.Contains(got.Error(), "\n"):
		t.Errorf("%s: the message has several lines: %q", call, got)
	}
}

// A call whose context is done does nothing. Its error is that of the context, and wraps the cause.
func TestContexts_DoneBefore(t *testing.T) {
	testenv.SkipRace(t)
	cause := errors.New("lunch")
	for name, call := range contextCalls {
		for _, filled := range []bool{false, true} {
			s := openForContexts(t, name, filled)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			wantContextError(t, name, call(ctx, s.DB), context.Canceled, cause)
			ctx, end := context.WithDeadlineCause(t.Context(), time.Unix(1, 0), cause)
			wantContextError(t, name, call(ctx, s.DB), context.DeadlineExceeded, cause)
			end()
			ctx, end = context.WithCancel(t.Context()) // without a cause
			end()
			wantContextError(t, name, call(ctx, s.DB), context.Canceled, context.Canceled)
			if _, err := s.Get([]byte("written")); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: a cancelled write: %v", name, err)
			}
		}
	}
}

// A context that ends amid a call, at any operation of the disk, ends the call in the same way, or
// comes too late.
func TestContexts_DoneAmid(t *testing.T) {
	testenv.SkipRace(t)
	cause := errors.New("lunch")
	for name, call := range contextCalls {
		ended, ops := 0, int64(0)
		for at := int64(1); at == 1 || at <= ops; at += 1 + at/4 {
			s := openForContexts(t, name, true)
			ctx, cancel := context.WithCancelCause(t.Context())
			var met atomic.Int64
			s.disk.Inject(func(vfs.Op, string, int64) error {
				if met.Add(1) == at {
					cancel(cause)
				}
				return nil
			})
			err := call(ctx, s.DB)
			ops = max(ops, met.Load())
			cancel(nil)
			if err != nil {
				ended++
				wantContextError(t, name, err, context.Canceled, cause)
			}
		}
		if short := name == "Write" || name == "Update" || name == "Advance" || name == "Flush" || name == "RaiseFileNum"; ended == 0 && !short {
			t.Errorf("%s: no context ended it, at %d operations", name, ops)
		}
	}
}

// A context ends the wait for the lead of the commit queue, which a gate holds.
func TestContexts_DoneInTheQueue(t *testing.T) {
	cause := errors.New("lunch")
	for _, name := range []string{"Write", "Update", "Flush", "Compact", "Ingest", "ExportFilters", "RaiseFileNum"} {
		inside, let := make(chan struct{}), make(chan struct{})
		o := small()
		o.FS = vfs.NewMem()
		o.Shipping.Gate = func(LogPosition) error { close(inside); <-let; return nil }
		db := mustOpen(t, "db", o)
		put := make(chan error)
		go func() { put <- db.Put([]byte("k"), nil) }()
		<-inside
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
		wantContextError(t, name, contextCalls[name](ctx, db), context.Canceled, cause)
		close(let)
		if err := <-put; err != nil {
			t.Error(err)
		}
		closeTest(t, db)
	}
}

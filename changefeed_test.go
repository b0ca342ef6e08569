package shale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// changeText returns a change as text: its numbers, and what it does.
func changeText(c Change) string {
	s := fmt.Sprintf("%d-%d", c.Seq, c.Last)
	if c.Ingested() {
		s += " ingested"
	}
	for op := range c.Ops() {
		s += " " + op.Kind.String() + " " + string(op.Key)
		if op.Kind != OpDelete {
			s += fmt.Sprintf("=%.8s", op.Value)
		}
	}
	return s
}

// changesUpTo returns the changes after number after, as text, up to the one whose last number is last.
func changesUpTo(db *DB, after, last uint64) (list []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for c, err := range db.Changes(ctx, after) {
		if err != nil {
			return list, err
		}
		list = append(list, changeText(c))
		if c.Last >= last {
			break
		}
	}
	return list, nil
}

// wantChanges checks the changes after number after.
func wantChanges(t *testing.T, db *DB, after, last uint64, want ...string) {
	t.Helper()
	if got, err := changesUpTo(db, after, last); err != nil || !slices.Equal(got, want) {
		t.Errorf("changes after %d: %q, %v; want %q", after, got, err, want)
	}
}

// wantGone checks that the feed does not reach back to after, and that first is the first number there is.
func wantGone(t *testing.T, db *DB, after, first uint64) {
	t.Helper()
	got, err := changesUpTo(db, after, 1<<50)
	if !errors.Is(err, ErrChangesGone) || !strings.HasSuffix(err.Error(), fmt.Sprintf(" is %d", first)) {
		t.Errorf("changes after %d: %q, %v; want ErrChangesGone that names %d", after, got, err, first)
	}
}

// follow collects the changes after number after in the background. seen returns those that it has so far, and
// how it has ended.
func follow(ctx context.Context, db *DB, after uint64) (seen func() ([]string, error)) {
	var mu sync.Mutex
	var list []string
	var ended error
	go func() {
		for c, err := range db.Changes(ctx, after) {
			mu.Lock()
			if ended = err; err == nil {
				list = append(list, changeText(c))
			}
			mu.Unlock()
		}
	}()
	return func() ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list), ended
	}
}

// feedOptions keep all logs of a test.
func feedOptions(fs vfs.FS) *Options {
	return &Options{FS: fs, KeepLog: 64 << 20, MemtableSize: 64 << 10, CompactionWorkers: -1, OnEvent: func(Event) {}}
}

// A feed gives whole batches in their order, from wherever it begins, after flushes and restarts too.
func TestChanges_Batches(t *testing.T) {
	mem := vfs.NewMem()
	o := feedOptions(mem)
	db := mustOpen(t, "db", o)
	mustPut(t, db, "a", "1")
	var b Batch
	if err := errors.Join(b.Put([]byte("b"), []byte("2")), b.Delete([]byte("a")), b.Put([]byte("c"), nil)); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, db)
	mustDelete(t, db, "b")
	mustFlush(t, db)
	mustPut(t, db, "d", strings.Repeat("4", 200<<10))
	if err := errors.Join(db.DeleteRange([]byte("b"), []byte("d")), db.DeleteRange([]byte("x"), nil)); err != nil {
		t.Fatal(err)
	}
	all := []string{"1-1 put a=1", "2-4 put b=2 delete a put c=", "5-5 delete b", "6-6 put d=44444444", "7-7 delete range b=d", "8-8 delete range x="}
	for range 3 {
		wantChanges(t, db, 0, 8, all...)
		wantChanges(t, db, 6, 8, all[4:]...)
		wantChanges(t, db, 1, 8, all[1:]...)
		wantChanges(t, db, 4, 8, all[2:]...)
		wantChanges(t, db, 5, 8, all[3:]...)
		closeTest(t, db)
		db = mustOpen(t, "db", o)
	}
	if _, err := changesUpTo(db, 9, 10); !errors.Is(err, ErrReplaced) {
		t.Errorf("changes after a number that was not given out: %v, want ErrReplaced", err)
	}
	closeTest(t, db)
	wantNoOpenFiles(t, mem)
}

// What is not durable is not shown, and neither is what the gate has not let pass. A feed that waits sleeps, and goes on
// when the log is synced, or when what is durable becomes visible.
func TestChanges_OnlyDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := feedOptions(vfs.NewMem())
		o.Durability = SyncManual
		db := mustOpen(t, "db", o)
		defer db.Close()
		seen := follow(t.Context(), db, 0)
		var want []string
		check := func(what string) {
			t.Helper()
			time.Sleep(feedPause)
			synctest.Wait()
			if got, err := seen(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v; want %q", what, got, err, want)
			}
		}
		mustPut(t, db, "a", "1")
		check("before Sync")
		if err := db.Sync(); err != nil {
			t.Fatal(err)
		}
		want = []string{"1-1 put a=1"}
		check("after Sync")
		mustPut(t, db, "b", "1")
		check("another write")
		var b Batch
		b.SetDurability(SyncEach)
		if err := errors.Join(b.Put([]byte("c"), nil), db.Write(t.Context(), &b)); err != nil {
			t.Fatal(err)
		}
		want = append(want, "2-2 put b=1", "3-3 put c=")
		check("after a synced batch")
		mustPut(t, db, "d", "1")
		mustFlush(t, db) // the log is sealed
		want = append(want, "4-4 put d=1")
		check("after a rotation")
		mustPut(t, db, "e", "1")
		if err := db.Ingest(t.Context(), sortedKeys(0, 2, "i")); err != nil {
			t.Fatal(err)
		}
		want = append(want, "5-5 put e=1", "6-6 ingested put k000000=i put k000001=i")
		check("after an ingestion")
	})
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// changesBesideClose is the row of Changes in closingCalls: it writes a change and waits for it.
func changesBesideClose(c *closing) error {
	after := ShippingOf(c.db).Position().LastSeq
	var b Batch
	b.SetDurability(SyncEach)
	key := fmt.Sprintf("changed%d", c.n.Add(1))
	if err := b.Put([]byte(key), nil); err != nil {
		return err
	}
	if err := c.db.Write(c.ctx, &b); err != nil {
		return err
	}
	for change, err := range c.db.Changes(c.ctx, after) {
		switch {
		case errors.Is(err, ErrChangesGone):
			return nil // the writer was faster
		case err != nil:
			return err
		}
		for op := range change.Ops() {
			if string(op.Key) == key {
				return nil
			}
		}
	}
	return errors.New("the feed has ended without an error")
}

func changesNowBesideClose(c *closing) error {
	for _, err := range ShippingOf(c.db).ChangesNow(c.ctx, ShippingOf(c.db).Position().LastSeq) {
		if err != nil && !errors.Is(err, ErrChangesGone) { // the writer was faster
			return err
		}
	}
	return nil
}

// Close and the context end a feed that waits, and one whose program is at work on a change. Neither waits for the
// program. To leave the loop, or to panic in it, gives back what the feed holds.
func TestChanges_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		db := mustOpen(t, "db", feedOptions(mem))
		mustPut(t, db, "a", "1")
		mustPut(t, db, "b", "1")
		open := mem.OpenFiles()

		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		waits := follow(ctx, db, 0)
		synctest.Wait()
		cause := errors.New("lunch")
		cancel(cause)
		synctest.Wait()
		if got, err := waits(); len(got) != 2 || !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("cancelled: %q, %v", got, err)
		}

		amid, end := context.WithCancelCause(t.Context())
		defer end(nil)
		var got []error
		for _, err := range db.Changes(amid, 0) {
			got = append(got, err)
			end(cause)
		}
		if len(got) != 2 || !errors.Is(got[1], cause) {
			t.Errorf("cancelled in the loop: %v", got)
		}

		for range db.Changes(t.Context(), 0) {
			break
		}
		func() {
			defer func() { _ = recover() }()
			for range db.Changes(t.Context(), 0) {
				panic("in the loop")
			}
		}()
		if n := mem.OpenFiles(); n != open {
			t.Errorf("%d files are open, were %d", n, open)
		}
		if num := db.logs.CurrentNum(); !db.logs.IsLive(num) {
			t.Error("no current log")
		}

		waits = follow(t.Context(), db, 2)
		several := follow(t.Context(), db, 0)
		synctest.Wait()
		got = nil
		for _, err := range db.Changes(t.Context(), 0) {
			if got = append(got, err); err == nil {
				closeTest(t, db)
			}
		}
		if len(got) != 2 || got[1] != ErrClosed {
			t.Errorf("closed in the loop: %v", got)
		}
		synctest.Wait()
		if list, err := waits(); len(list) != 0 || err != ErrClosed {
			t.Errorf("closed: %q, %v", list, err)
		}
		if list, err := several(); len(list) != 2 || err != ErrClosed {
			t.Errorf("closed: %q, %v", list, err)
		}
		for _, err := range db.Changes(t.Context(), 0) {
			if err != ErrClosed {
				t.Errorf("after Close: %v", err)
			}
		}
		wantNoOpenFiles(t, mem)
	})
}

// A read-only handle shows what the writer of its directory has done, also while it waits, and never a log for another.
func TestChanges_ReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		o := feedOptions(mem)
		o.KeepLog = 0
		db := mustOpen(t, "db", o)
		defer db.Close()
		mustPut(t, db, "a", "1")
		ro := *o
		ro.ReadOnly = true
		reader := mustOpen(t, "db", &ro)
		defer reader.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := follow(ctx, reader, 0)
		want := []string{"1-1 put a=1"}
		check := func() {
			t.Helper()
			time.Sleep(2 * advancePause)
			synctest.Wait()
			if got, err := seen(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
		check()
		for i := range 10 {
			mustPut(t, db, "b", fmt.Sprint(i))
			want = append(want, fmt.Sprintf("%d-%d put b=%d", i+2, i+2, i))
			if i%3 == 0 {
				mustFlush(t, db)
			}
			check()
		}
		if err := db.Ingest(t.Context(), sortedKeys(0, 2, "i")); err != nil {
			t.Fatal(err)
		}
		want = append(want, "12-12 ingested put k000000=i put k000001=i")
		check()
		// Between two looks of the reader its log is gone, the next one too or not.
		for _, rounds := range []int{2, 8} {
			last := ShippingOf(db).Position().LastSeq
			late := follow(ctx, reader, last)
			time.Sleep(2 * advancePause)
			synctest.Wait()
			for i := range rounds {
				mustPut(t, db, "c", fmt.Sprint(i))
				mustFlush(t, db)
			}
			time.Sleep(2 * advancePause)
			synctest.Wait()
			if got, err := late(); !errors.Is(err, ErrChangesGone) || len(got) > 0 {
				t.Errorf("after %d logs: %q, %v; want ErrChangesGone", rounds, got, err)
			}
		}
	})
}

// A read-only handle of a store without logs, as a checkpoint can be, has lost nothing, and waits for a writer.
func TestChanges_WithoutLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := feedOptions(vfs.NewMem())
		db := mustOpen(t, "db", o)
		mustPut(t, db, "a", "1")
		mustFlush(t, db)
		if err := db.Checkpoint("copy"); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		ro := *o
		ro.ReadOnly = true
		reader := mustOpen(t, "copy", &ro)
		defer reader.Close()
		seen := follow(t.Context(), reader, 1)
		time.Sleep(3 * advancePause)
		synctest.Wait()
		if got, err := seen(); len(got) > 0 || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		wantGone(t, reader, 0, 2)
		db = mustOpen(t, "copy", o)
		defer db.Close()
		mustPut(t, db, "b", "1")
		time.Sleep(3 * advancePause)
		synctest.Wait()
		if got, err := seen(); !slices.Equal(got, []string{"2-2 put b=1"}) || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A read-only handle shows a write before it is durable. If its log fails and Resume takes the write back, the feed
// does not go on as if the program had nothing of it.
func TestChanges_ShownAndUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New(vfs.NewMem(), nil)
		o := feedOptions(disk)
		db := mustOpen(t, "db", o)
		defer db.Close()
		mustPut(t, db, "a", "1")
		ro := *o
		ro.ReadOnly = true
		reader := mustOpen(t, "db", &ro)
		defer reader.Close()
		seen, from1 := follow(t.Context(), reader, 0), follow(t.Context(), reader, 1)
		fault := errors.New("injected")
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf(op == vfs.OpSync && strings.HasSuffix(name, ".wal"), fault)
		})
		if err := db.Put([]byte("undone"), nil); !errors.Is(err, fault) {
			t.Fatal(err)
		}
		time.Sleep(3 * advancePause)
		synctest.Wait()
		disk.Inject(nil)
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "b", "1")
		time.Sleep(3 * advancePause)
		synctest.Wait()
		if got, err := seen(); !slices.Equal(got, []string{"1-1 put a=1", "2-2 put undone="}) || !errors.Is(err, ErrReplaced) {
			t.Errorf("%q, %v; want ErrReplaced", got, err)
		}
		if got, err := from1(); !slices.Equal(got, []string{"2-2 put undone="}) || !errors.Is(err, ErrReplaced) {
			t.Errorf("%q, %v; want ErrReplaced", got, err)
		}
		wantChanges(t, reader, 0, 3, "1-1 put a=1", "3-3 put b=1")
		for c, err := range ShippingOf(reader).ChangesNow(t.Context(), 3) {
			t.Errorf("after the last change: %s, %v", changeText(c), err)
		}
	})
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// A state that is held can be copied, file by file, while the store is compacted and written: the
// copy, with a manifest made of the state, is a store with what was in tables and sealed logs.
func TestHold_CopyIsAStore(t *testing.T) {
	mem := vfs.NewMem()
	o := small()
	o.FS, o.CompactionWorkers = mem, -1
	db := mustOpen(t, "db", o)
	for round := range 4 {
		for i := range 50 {
			mustPut(t, db, fmt.Sprintf("k%03d", i), fmt.Sprint(round))
		}
		if round < 3 {
			mustFlush(t, db)
		}
	}
	mustIngest(t, db, sortedKeys(0, 100, "ingested"))
	mustPut(t, db, "recovered", "in a sealed log")
	closeTest(t, db)
	db = mustOpen(t, "db", o)
	mustPut(t, db, "newest", "in the log that is written")
	h, err := ShippingOf(db).Hold()
	if err != nil {
		t.Fatal(err)
	}
	state := h.State()
	for m := range state.Version.Tables() {
		if m.Num >= state.NextFileNum {
			t.Errorf("table %s is not below %s", m.Num, state.NextFileNum)
		}
	}
	if n := len(state.Logs); n == 0 || state.Logs[n-1].Sealed || uint64(state.Logs[n-1].Num) != ShippingOf(db).Position().Log {
		t.Errorf("the logs of the state are %+v", state.Logs)
	}
	// All files of the state are replaced.
	for i := range 50 {
		mustPut(t, db, fmt.Sprintf("k%03d", i), "later")
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	db.awaitDeletions(context.Background())

	if err := mem.MkdirAll("copy"); err != nil {
		t.Fatal(err)
	}
	for m := range state.Version.Tables() {
		name := base.TableName(m.Num)
		if err := durable.Copy(mem, filepath.Join("db", name), filepath.Join("copy", name)); err != nil {
			t.Fatal(err)
		}
	}
	logs := state.Logs
	state.Logs = nil
	for _, l := range logs {
		if l.Sealed {
			name := base.LogName(l.Num)
			if err := durable.Copy(mem, filepath.Join("db", name), filepath.Join("copy", name)); err != nil {
				t.Fatal(err)
			}
			state.Logs = append(state.Logs, l)
		}
	}
	log, err := manifest.Create(mem, "copy", state.NextFileNum, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Close(), mem.SyncDir("copy")); err != nil {
		t.Fatal(err)
	}
	first := ""
	for m := range h.State().Version.Tables() {
		first = filepath.Join("db", base.TableName(m.Num))
		break
	}
	if _, err := mem.Stat(first); err != nil {
		t.Errorf("a table that is held: %v", err)
	}
	h.Release()
	h.Release()
	// A goroutine that looks through the filters may have the version for a moment longer.
	testenv.Within(t, 10*time.Second, "the removal of a table that was held", func() {
		for _, err := mem.Stat(first); !errors.Is(err, fs.ErrNotExist); _, err = mem.Stat(first) {
			db.awaitDeletions(context.Background())
			time.Sleep(time.Millisecond)
		}
	})
	copied := mustOpen(t, "copy", o)
	wantGet(t, copied, "k000", "3", true)
	wantGet(t, copied, "k000099", "ingested", true)
	wantGet(t, copied, "recovered", "in a sealed log", true)
	wantGet(t, copied, "newest", "", false)
	closeTest(t, copied)
	wantGet(t, db, "k000", "later", true)
}

// A Hold outlives its store, and there is none of a store that is closed or read-only.
func TestHold_BesideClose(t *testing.T) {
	mem := vfs.NewMem()
	o := small()
	o.FS = mem
	db := mustOpen(t, "db", o)
	mustPut(t, db, "k", "v")
	mustFlush(t, db)
	h, err := ShippingOf(db).Hold()
	if err != nil {
		t.Fatal(err)
	}
	closeTest(t, db)
	h.Release()
	wantNoOpenFiles(t, mem)
	if _, err := ShippingOf(db).Hold(); !errors.Is(err, ErrClosed) {
		t.Errorf("Hold of a closed store: %v", err)
	}
	o.ReadOnly = true
	db = mustOpen(t, "db", o)
	if _, err := ShippingOf(db).Hold(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Hold of a read-only store: %v", err)
	}
	wantGet(t, db, "k", "v", true)
	closeTest(t, db)
}

// A state that is held next to Close has all its tables.
func holdBesideClose(c *closing) error {
	h, err := ShippingOf(c.db).Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	for m := range h.State().Version.Tables() {
		if _, err := c.db.fs.Stat(c.db.path(base.TableName(m.Num))); err != nil {
			return fmt.Errorf("a table that is held: %w", err)
		}
	}
	return nil
}

package shale

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// The log of the writer breaks and is replaced by Resume before each operation of a reader. A reader that has read the
// manifest before may show what Resume undoes, or what comes after, but not both, and not what comes after alone:
// the new log follows what is in tables that this manifest does not have. The reader opens the store, or begins again,
// and finds the old log too, because nobody has removed it yet. Or it goes on behind a log that it has read to its
// seal, and finds neither that nor the one after it.
func TestReplay_LogAfterResume(t *testing.T) {
	for _, how := range []string{"open", "begin anew", "sealed"} {
		for at := int64(1); resumeBefore(t, how, at); at++ {
		}
	}
}

// resumeBefore is the test for one operation. It reports whether there is one of that number.
func resumeBefore(t *testing.T, how string, at int64) (resumed bool) {
	fault, ctx := errors.New("injected"), context.Background()
	mem := vfs.NewMem()
	disk, shared := faultfs.New(mem, nil), faultfs.New(mem, nil)
	fail := func(what vfs.Op) {
		disk.Inject(func(op vfs.Op, name string, _ int64) error {
			return errorIf(op == what && strings.HasSuffix(name, ".wal"), fault)
		})
	}
	resume := func(db *DB) {
		t.Helper()
		disk.Inject(nil)
		if err := db.Resume(); err != nil {
			t.Error(err)
		}
	}
	opts := Options{FS: disk, Durability: SyncEach, CompactionWorkers: -1, OnEvent: func(Event) {}}
	if how != "sealed" {
		opts.Shipping.HoldLogs = 1
	}
	db := openTest(t, &opts)
	mustPut(t, db, "before", "1")
	ro := opts
	ro.FS, ro.ReadOnly, ro.Shipping.HoldLogs = shared, true, 0
	var reader *DB
	if how != "open" {
		reader = openTest(t, &ro)
	}
	switch how {
	case "begin anew":
		reader.follower.startOver()
	case "sealed":
		fail(vfs.OpCreate)
		if err := db.Flush(ctx); !errors.Is(err, fault) {
			t.Errorf("Flush: %v", err)
		}
		if _, err := reader.Advance(ctx); err != nil {
			t.Error(err)
		}
	}
	first := shared.Ops()
	shared.Inject(func(_ vfs.Op, _ string, n int64) error {
		if n-first != at {
			return nil
		}
		resumed = true
		if how == "sealed" {
			resume(db)
			mustPut(t, db, "between", "1")
		}
		fail(vfs.OpSync)
		if err := db.Put([]byte("undone"), []byte("1")); !errors.Is(err, fault) {
			t.Errorf("Put: %v", err)
		}
		resume(db)
		mustPut(t, db, "last", "1")
		db.awaitDeletions(ctx)
		return nil
	})
	if how == "open" {
		reader = openTest(t, &ro)
	} else if _, err := reader.Advance(ctx); err != nil {
		t.Errorf("%s, operation %d: Advance: %v", how, at, err)
	}
	shared.Inject(nil)
	want := scanAll(t, db, Range{})
	if got := scanAll(t, reader, Range{}); got != want && got != "before=1" && got != "before=1 undone=1" && got != "before=1 between=1 undone=1" {
		t.Errorf("%s, operation %d: the reader shows %s", how, at, got)
	}
	if _, err := reader.Advance(ctx); err != nil {
		t.Error(err)
	}
	if got := scanAll(t, reader, Range{}); got != want {
		t.Errorf("%s, operation %d: after another Advance the reader shows %s, want %s", how, at, got, want)
	}
	closeTest(t, reader)
	closeTest(t, db)
	return resumed
}

// The logs of the process before go if the new manifest says that all their writes are in tables. As long as CURRENT names
// the old one, they stay. Once it names the new one, nothing else need be written there.
func TestOpen_LogsStayWithoutAManifest(t *testing.T) {
	for _, begun := range []bool{false, true} {
		mem := vfs.NewMem()
		db := mustOpen(t, "db", &Options{FS: mem})
		mustPut(t, db, "a", "1")
		mustFlush(t, db)
		closeTest(t, db)
		old := fileNamed(t, mem, ".wal")
		var fails atomic.Bool
		fails.Store(!begun)
		disk := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
			fail := fails.Load() && strings.Contains(name, "MANIFEST")
			if op == vfs.OpSyncDir && storeFiles(t, mem)["CURRENT"] != "" {
				fails.Store(true)
			}
			return errorIf(fail, syscall.EIO)
		})
		db, err := Open("db", &Options{FS: disk, OnEvent: func(Event) {}})
		if (err == nil) != begun {
			t.Fatalf("CURRENT changes: %v; %v", begun, err)
		}
		if files := storeFiles(t, mem); (files[filepath.Base(old)] == "") != begun {
			t.Errorf("CURRENT changes: %v; %s is gone: %v", begun, old, !begun)
		}
		crashed := mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
		again := mustOpen(t, "db", &Options{FS: crashed})
		wantGet(t, again, "a", "1", true)
		disk.Inject(nil)
		if begun {
			mustPut(t, db, "b", "2")
			mustFlush(t, db)
			closeTest(t, db)
		}
		db = mustOpen(t, "db", &Options{FS: mem})
		wantGet(t, db, "a", "1", true)
		if begun {
			wantGet(t, db, "b", "2", true)
		}
	}
}

// A store is opened again with five syncs: of the manifest and CURRENT's next line, which are made at the same time, of the directory before
// and after CURRENT changes, and of the log.
func TestOpen_Syncs(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	mustPut(t, db, "a", "1")
	mustFlush(t, db)
	closeTest(t, db)
	var syncs atomic.Int32
	disk := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync || op == vfs.OpSyncDir {
			syncs.Add(1)
		}
		return nil
	})
	db = mustOpen(t, "db", &Options{FS: disk})
	if n := syncs.Load(); n > 5 {
		t.Errorf("%d syncs, want 5", n)
	}
	wantGet(t, db, "a", "1", true)
}

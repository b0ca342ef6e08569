package shale

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A rotation succeeds when the manifest has grown too long and the next one can't be begun:
// Open finds logs by their names.
func TestRotate_ManifestCannotBeBegun(t *testing.T) {
	mem := vfs.NewMem()
	faults := faultfs.New(mem, nil)
	opts := small()
	opts.FS, opts.CompactionWorkers = faults, -1
	db := openTest(t, opts)
	db.tree.RenewManifest()
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpCreate && strings.Contains(name, "MANIFEST") {
			return syscall.EIO
		}
		return nil
	})
	first := db.logs.Current()
	for i := 0; db.logs.Current() == first; i++ {
		mustPut(t, db, fmt.Sprintf("key%06d", i), strings.Repeat("v", 100))
	}
	mustPut(t, db, "after", "the rotation")
	faults.Inject(nil)
	err := db.Flush(context.Background())
	if errors.Is(err, syscall.EIO) { // that of a flush that was under way before
		err = db.Flush(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, opts)
	wantGet(t, db, "key000000", strings.Repeat("v", 100), true)
	wantGet(t, db, "after", "the rotation", true)
}

// If level 0 is full and compactions fail, writers get an error instead of waiting for ever.
// Writes go on by themselves once compactions succeed.
func TestWrite_LevelZeroFullAndCompactionFails(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), nil)
	opts := small()
	opts.FS, opts.CompactionWorkers = faults, 1
	opts.MemtableSize = 4 << 10
	db := openTest(t, opts)
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpRead && strings.HasSuffix(name, ".sst") && db.compacting() {
			return syscall.EIO
		}
		return nil
	})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			key := fmt.Appendf(nil, "key%06d", i*7919%1000003)
			if err := db.Put(key, []byte(strings.Repeat(fmt.Sprint(i), 30))); err != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
			t.Errorf("Put = %v; want ErrReadOnly that wraps EIO", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a writer hangs")
	}
	faults.Inject(nil)
	testenv.WaitFor(t, "writes to go on by themselves", func() bool { return db.Put([]byte("k"), []byte("v")) == nil })
}

// A rotation uses the log that was prepared: it creates and renames no file, and syncs no
// directory.
func TestRotate_UsesThePreparedLog(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), nil)
	opts := tinyStore(fsys)
	opts.testing.minPrepared, opts.CompactionWorkers = 1, -1
	db := mustOpen(t, "db", &opts)
	for round := range 3 {
		for i := 0; db.mems.View().Mem.Taken() <= opts.MemtableSize*3/4; i++ {
			mustPut(t, db, fmt.Sprintf("key%d-%d", round, i), "value")
		}
		awaitPrepared(t, db)
		release := holdFlushes(db) // no flush makes files meanwhile
		made := fsys.Count(vfs.OpCreate) + fsys.Count(vfs.OpRename) + fsys.Count(vfs.OpSyncDir)
		num := db.logs.CurrentNum()
		for i := 0; db.logs.CurrentNum() == num; i++ {
			mustPut(t, db, fmt.Sprintf("more%d-%d", round, i), "value")
		}
		if n := fsys.Count(vfs.OpCreate) + fsys.Count(vfs.OpRename) + fsys.Count(vfs.OpSyncDir); n != made {
			t.Errorf("the rotation made %d files, names or directory syncs", n-made)
		}
		release()
	}
	closeTest(t, db)
	db = mustOpen(t, "db", &opts)
	if value, err := db.Get([]byte("key2-0")); err != nil || string(value) != "value" {
		t.Errorf("Get after reopening: %q, %v", value, err)
	}
	closeTest(t, db)
}

// awaitPrepared waits until the next log is prepared.
func awaitPrepared(t *testing.T, db *DB) {
	t.Helper()
	testenv.Within(t, time.Minute, "the next log is prepared", func() {
		for have := false; !have; runtime.Gosched() {
			have, _ = db.logs.Spare()
		}
	})
}

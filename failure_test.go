package shale

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

func TestCompact_FailureLeavesNoTables(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	opts := small()
	opts.FS, opts.CompactionWorkers = faults, -1
	db := openTest(t, opts)
	fillRandom(t, db, 0, 4000)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := tablesOnDisk(t, db, mem)
	for _, failing := range []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpOpen} {
		tables := 0
		faults.Inject(func(op vfs.Op, name string, _ int64) error {
			if op == vfs.OpCreate && strings.HasSuffix(name, ".sst") {
				tables++ // the first outputs succeed
			}
			if op == failing && tables > 2 {
				return syscall.ENOSPC
			}
			return nil
		})
		if err := db.Compact(context.Background(), Range{}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Compact with failing %v = %v; want ENOSPC", failing, err)
		}
		faults.Inject(nil)
		if n := tablesOnDisk(t, db, mem); n != before && failing != vfs.OpSyncDir {
			t.Errorf("%d tables on disk after a compaction that failed in %v; want %d", n, failing, before)
		}
		before = tablesOnDisk(t, db, mem)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	inUse := 0
	for _, l := range db.Metrics().Levels {
		inUse += l.Tables
	}
	if n := tablesOnDisk(t, db, mem); n != inUse {
		t.Errorf("%d tables on disk after a compaction, %d in use", n, inUse)
	}
}

// A table whose file can't be created leaves nothing behind, also not its number.
func TestFlush_FailedCreateLeavesNoNumber(t *testing.T) {
	faults := vfs.NewFault(vfs.NewMem(), nil)
	db := openTest(t, &Options{FS: faults, CompactionWorkers: -1})
	mustPut(t, db, "k", "v")
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		return errorIf(op == vfs.OpCreate && strings.HasSuffix(name, ".sst"), syscall.EIO)
	})
	if err := db.Flush(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Flush = %v; want EIO", err)
	}
	faults.Inject(nil)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := reflect.ValueOf(db.tree).Elem().FieldByName("pending").Len(); n != 0 {
		t.Errorf("%d tables are pending, and nothing makes one", n)
	}
}

func TestFlush_FailedManifestLeavesNoTables(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	opts := small()
	opts.FS, opts.CompactionWorkers = faults, -1
	db := openTest(t, opts)
	fillRandom(t, db, 0, 50)
	failing := true
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.Contains(name, "MANIFEST") && failing {
			return syscall.EIO
		}
		return nil
	})
	if err := db.Flush(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Flush = %v; want EIO", err)
	}
	faults.Inject(nil)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	testenv.WaitFor(t, "the flush to be tried again", func() bool { return len(db.view.Load().imms) == 0 })
	if n := tablesOnDisk(t, db, mem); n != 1 {
		t.Errorf("%d tables on disk; want 1", n)
	}
	if got, err := db.Get([]byte("key000000")); err != nil || !strings.HasPrefix(string(got), "0.") {
		t.Errorf("Get = %q, %v", got, err)
	}
}

// A compaction that can't succeed must not leave writers waiting for level 0
// for ever.
func TestWrite_LevelZeroFullAndCompactionFails(t *testing.T) {
	faults := vfs.NewFault(vfs.NewMem(), nil)
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

func TestVerify_ReadsTheLogs(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, &Options{FS: mem})
	mustPut(t, db, "k", strings.Repeat("v", 1000))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	kept := db.logs.CurrentNum()
	db = openTest(t, &Options{FS: mem}) // the log that holds k is kept
	if err := db.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	log := base.LogName(kept)
	name := db.path(log)
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flip := func() {
		var b [1]byte
		if _, err := f.ReadAt(b[:], 4096+300); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], 4096+300); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	var damage *CorruptionError
	if err := db.Verify(context.Background()); !errors.As(err, &damage) || damage.File != log {
		t.Errorf("Verify = %v; want a CorruptionError that names the log", err)
	}
	flip()
}

// A Verify that meets damage in a log holds none of the others longer: a flush lets them go.
func TestVerify_HoldsNoLogAfterDamage(t *testing.T) {
	mem := vfs.NewMem()
	opts := &Options{FS: mem, testing: testOptions{minPrepared: 1}}
	for range 3 {
		db := openTest(t, opts)
		mustPut(t, db, "k", strings.Repeat("v", 1000))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db := openTest(t, opts)
	held := db.holdLogs()
	if len(held) < 2 {
		t.Fatalf("%d sealed logs, want some", len(held))
	}
	db.releaseLogs(held)
	editFile(t, mem, db.path(base.LogName(held[0].Num)), flipByte(4096+300))
	var damage *CorruptionError
	if err := db.Verify(context.Background()); !errors.As(err, &damage) {
		t.Fatalf("Verify = %v; want a CorruptionError", err)
	}
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	db.awaitDeletions(t.Context())
	_, kept := db.logs.Spare()
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".wal") {
			logs++
		}
	}
	if logs > kept+2 {
		t.Errorf("after the flush %d logs lie in the directory: one in use, one prepared, %d to be used again", logs, kept)
	}
}

// A rotation goes on when the manifest, having grown too long, can't be begun
// anew: logs are found by their names.
func TestRotate_ManifestCannotBeBegun(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
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
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, opts)
	wantGet(t, db, "key000000", strings.Repeat("v", 100), true)
	wantGet(t, db, "after", "the rotation", true)
}

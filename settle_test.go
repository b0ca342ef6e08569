package shale

import (
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A sync of the log fails and the system forgets the pages: readers see them,
// the disk has nothing, and the next sync succeeds. Whoever opens the store
// then must not take for durable what it reads.
func TestOpen_AfterAFailedSyncOfTheLog(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		mem := vfs.NewMem()
		faults := vfs.NewFault(mem, nil)
		opts := tinyStore(faults)
		opts.testing.noMap = noMap
		db, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "k", "v")
		faults.Inject(vfs.FailFrom(1, syscall.EIO, vfs.OpSync))
		if err := db.Sync(); err == nil {
			t.Fatal("Sync succeeded")
		}
		_ = db.Close() // says the same
		faults.Inject(nil)

		if db, err = Open("db", &opts); err != nil {
			t.Fatal(err)
		}
		wantGet(t, db, "k", "v", true) // no machine has crashed
		var b Batch
		mustPut(t, &b, "synced", "v")
		b.SetDurability(SyncEach)
		if err := db.Write(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		for _, c := range vfs.CrashConfigs(1) {
			opts := opts
			opts.FS = mem.Crash(c)
			db, err := Open("db", &opts)
			if err != nil {
				t.Errorf("without mapping %v, %v: %v", noMap, c, err)
				continue
			}
			wantGet(t, db, "k", "v", true)
			wantGet(t, db, "synced", "v", true)
			closeTest(t, db)
		}
		closeTest(t, db)
	}
}

// A log whose creation a crash met, and whose removal another one, stands
// before logs that were used.
func TestOpen_UnusedLogBeforeOthers(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.Durability = SyncEach
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k", "v")
	created := false
	var crashed *vfs.Mem
	mem.OnOp(func(op vfs.Op, name string) {
		if strings.HasSuffix(name, ".wal") && created && crashed == nil {
			crashed = mem.Crash(vfs.CrashConfig{Policy: vfs.DropAll, Names: vfs.NamesKeep})
		}
		created = created || op == vfs.OpCreate && strings.HasSuffix(name, ".wal")
	})
	mustFlush(t, db)
	mem.OnOp(nil)
	closeTest(t, db)
	if crashed == nil {
		t.Fatal("no log was created")
	}
	// The names that SyncDir has not made durable come back.
	opts.FS = crashed
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k2", "v")
	again := crashed.Crash(vfs.CrashConfig{Policy: vfs.DropAll, Names: vfs.NamesDrop})
	closeTest(t, db)
	opts.FS = again
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k", "v", true)
	wantGet(t, db, "k2", "v", true)
	closeTest(t, db)
}

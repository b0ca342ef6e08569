package shale

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// After a sync of the log that does not return the store takes no writes, whoever has synced. Resume works,
// and nothing that was acknowledged is lost.
func TestSync_DoesNotReturn(t *testing.T) {
	synced := func(db *DB) error {
		var b Batch
		b.SetDurability(SyncEach)
		if err := b.Put([]byte("k"), []byte("new")); err != nil {
			return err
		}
		return db.Write(t.Context(), &b)
	}
	for name, call := range map[string]func(db *DB) error{"Write": synced, "Sync": (*DB).Sync} {
		for _, durability := range []Durability{SyncEach, SyncManual} {
			for _, exit := range []bool{false, true} {
				var armed atomic.Bool
				o := small()
				o.Durability = durability
				mem := vfs.NewMem()
				o.FS = faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
					if op == vfs.OpSync && strings.HasSuffix(name, ".wal") && armed.CompareAndSwap(true, false) {
						if exit {
							runtime.Goexit()
						}
						panic("the file system")
					}
					return nil
				})
				db := mustOpen(t, "db", o)
				mustPut(t, db, "k", "old")
				mustPut(t, db, "other", "1")
				armed.Store(true)
				err := base.Survive(func() error { return call(db) })
				if armed.Load() { // nothing was left to sync, and Close meets the panic
					var left *base.PanicError
					if err := db.Close(); !errors.As(err, &left) {
						t.Errorf("%s, durability %d, Goexit %v: Close = %v, want a PanicError", name, durability, exit, err)
					}
					wantNoOpenFiles(t, mem)
					db = mustOpen(t, "db", o)
					wantGet(t, db, "other", "1", true)
					closeTest(t, db)
					continue
				}
				if err == nil || db.Err() == nil {
					t.Errorf("%s, durability %d, Goexit %v: %v; the store takes writes: %v", name, durability, exit, err, db.Err() == nil)
				}
				if err := db.Resume(); err != nil {
					t.Fatal(err)
				}
				wantGet(t, db, "other", "1", true)
				mustPut(t, db, "after", "1")
				closeTest(t, db)
				db = mustOpen(t, "db", o)
				wantGet(t, db, "other", "1", true)
				wantGet(t, db, "after", "1", true)
				closeTest(t, db)
				wantNoOpenFiles(t, mem)
			}
		}
	}
}

// A halfFS is a file system that panics once, in the middle of a write to a manifest.
type halfFS struct {
	vfs.FS
	armed *atomic.Bool
}

func (h halfFS) Create(name string) (vfs.File, error) {
	f, err := h.FS.Create(name)
	if err != nil || !strings.Contains(name, "MANIFEST") {
		return f, err
	}
	return halfFile{f, h.armed}, nil
}

type halfFile struct {
	vfs.File
	armed *atomic.Bool
}

func (f halfFile) Write(p []byte) (int, error) {
	if f.armed.CompareAndSwap(true, false) {
		_, _ = f.File.Write(p[:len(p)/2])
		panic("half of a write")
	}
	return f.File.Write(p)
}

func (f halfFile) WriteAt(p []byte, off int64) (int, error) {
	if f.armed.CompareAndSwap(true, false) {
		_, _ = f.File.WriteAt(p[:len(p)/2], off)
		panic("half of a write")
	}
	return f.File.WriteAt(p, off)
}

// Nothing is appended to a manifest after an edit of which a part was written when the file system
// panicked, and the tables of that edit stay as long as the manifest may name them.
func TestInstall_PanicTearsNoManifest(t *testing.T) {
	var armed atomic.Bool
	mem := vfs.NewMem()
	o := small()
	o.FS, o.OnEvent = halfFS{mem, &armed}, func(Event) {}
	db := mustOpen(t, "db", o)
	for round := range 4 {
		fill(t, db, 50, round)
		armed.Store(round%2 == 0)
		_ = base.Survive(func() error { return db.Flush(t.Context()) })
		if err := db.Resume(); err != nil { // the leader may have panicked
			t.Fatal(err)
		}
		mustFlush(t, db)
		armed.Store(round%2 == 1)
		err := base.Survive(func() error { return db.Ingest(t.Context(), sortedKeys(0, 10, "1")) })
		if left := armed.Swap(false); !left && round%2 == 1 && err == nil {
			t.Error("an ingestion whose manifest was half written returns nil")
		}
		if db.Err() != nil {
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		mustPut(t, db, "after", "1")
		mustFlush(t, db)
		copied := mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
		c := *o
		c.FS = copied
		crashed := mustOpen(t, "db", &c)
		wantGet(t, crashed, "after", "1", true)
		closeTest(t, crashed)
	}
	closeTest(t, db)
	db = mustOpen(t, "db", o)
	wantGet(t, db, "after", "1", true)
	if err := db.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	closeTest(t, db)
}

package wal

import (
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestWriteBack checks that large parts of the log are given to the system in whole units,
// and each once. Where that is not possible, WriteBack returns false once for each part.
func TestWriteBack(t *testing.T) {
	for _, c := range []struct {
		name string
		fs   vfs.FS
		dir  string
	}{{"mem", vfs.NewMem(), ""}, {"os", vfs.Default, t.TempDir()}} {
		t.Run(c.name, func(t *testing.T) {
			w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: c.fs, Dir: c.dir, Prealloc: 32 << 20})
			payload := make([]byte, 1<<20)
			asked := 0
			for i := range 24 {
				if _, err := w.Append(payload, 1); err != nil {
					t.Fatal(err)
				}
				if !w.WriteBackDue() {
					continue
				}
				asked++
				if done := w.WriteBack(); done && c.name == "mem" {
					t.Error("WriteBack of a file in memory: true")
				} else if !done && c.name == "os" {
					t.Log("the system can't write back")
				}
				back := w.writtenBack.Load()
				if back%writeBackUnit != 0 || back > w.Len() || w.Len()-back >= writeBackUnit {
					t.Errorf("record %d: written back up to %d of %d", i, back, w.Len())
				}
				if w.WriteBackDue() || !w.WriteBack() || w.writtenBack.Load() != back {
					t.Errorf("record %d: there is more to write back", i)
				}
			}
			if asked != 2 {
				t.Errorf("%d write-backs of 24 MiB, want 2", asked)
			}
			if w.Synced() != headerSize {
				t.Errorf("synced up to %d, without a sync", w.Synced())
			}
			mustClose(t, w)
			if w.writtenBack.Store(0); w.WriteBack() {
				t.Error("WriteBack of a closed log: true")
			}
		})
	}
}

// TestAppendBatch_SyncedByCall checks that records which will be synced are written with a
// system call.
func TestAppendBatch_SyncedByCall(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), nil)
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: fsys, Prealloc: 64 << 10})
	calls, mapped := fsys.Count(vfs.OpWrite), fsys.Count(vfs.OpMapWrite)
	for i := range 10 {
		if _, err := w.AppendBatch(toBytes(testPayloads(3)), 1, i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	calls, mapped = fsys.Count(vfs.OpWrite)-calls, fsys.Count(vfs.OpMapWrite)-mapped
	if calls != 5 || mapped != 5 {
		t.Errorf("%d write calls and %d writes to the mapping, want 5 of each", calls, mapped)
	}
	mustClose(t, w)
}

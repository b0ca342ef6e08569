package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// diskUse returns the files of a store and their bytes.
func diskUse(t *testing.T, fs vfs.FS, dir string) (names string, size int64) {
	t.Helper()
	list, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		info, err := fs.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size
	}
	return strings.Join(list, " "), size
}

// A store that is opened and closed many times keeps no log whose writes are in tables. A
// closed store keeps no space that was reserved for later writes.
func TestReopen_LeavesNoLogs(t *testing.T) {
	for _, flush := range []bool{true, false} {
		fs := vfs.NewMem()
		var logs []int
		for i := range 24 {
			db, err := Open("store", &Options{FS: fs})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := db.Put([]byte("k"), []byte("v")); err != nil {
					t.Fatal(err)
				}
				if flush {
					if err := db.Flush(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if v, err := db.Get([]byte("k")); err != nil || !bytes.Equal(v, []byte("v")) {
				t.Fatalf("open %d: Get = %q, %v", i, v, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			names, size := diskUse(t, fs, "store")
			logs = append(logs, strings.Count(names, ".wal"))
			if size > 256<<10 {
				t.Errorf("flush %v, open %d: %d bytes for one entry: %s", flush, i, size, names)
			}
		}
		most := maxKeptLogs + 1 // the new log is one more
		if flush {
			most = 1
		}
		for i, n := range logs {
			if n > most {
				t.Fatalf("flush %v: %d logs after open %d, want %d at most: %v", flush, n, i, most, logs)
			}
		}
	}
}

// A log with an unknown kind of operation was written by a newer version of shale. Open
// returns ErrFormatTooNew and not a CorruptionError, and changes nothing in the directory.
func TestOpen_BatchOfANewerVersion(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, &Options{FS: mem})
	mustPut(t, db, "a", "1")
	var b Batch
	mustPut(t, &b, "b", "2")
	b.data[batchHeader] = 5 // a kind of operation that this version does not know
	if err := db.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := storeFiles(t, mem)
	for _, readOnly := range []bool{false, true} {
		_, err := Open("db", &Options{FS: mem, ReadOnly: readOnly})
		var damage *CorruptionError
		if !errors.Is(err, ErrFormatTooNew) || errors.As(err, &damage) || !strings.Contains(err.Error(), ".wal") {
			t.Errorf("Open, read-only %v: %v; want ErrFormatTooNew and the log's name", readOnly, err)
		}
		if !maps.Equal(storeFiles(t, mem), before) {
			t.Errorf("Open, read-only %v, changed the directory", readOnly)
		}
	}
}

// Logs that were written with a large MemtableSize become few memtables, whatever its size is now: each of
// them is flushed by itself.
func TestRecover_SmallerMemtables(t *testing.T) {
	o := &Options{FS: vfs.NewMem(), MemtableSize: 32 << 20, Durability: SyncManual}
	db := mustOpen(t, "db", o)
	const n = 2000
	for i := range n {
		mustPut(t, db, fmt.Sprint(i%(n/2)), fmt.Sprintf("%04000d", i))
	}
	check := func(db *DB) {
		t.Helper()
		for i := range n / 2 {
			wantGet(t, db, fmt.Sprint(i), fmt.Sprintf("%04000d", i+n/2), true)
		}
	}
	beside := *o
	beside.ReadOnly, beside.MemtableSize = true, 4<<10
	reader := mustOpen(t, "db", &beside)
	v := reader.mems.View()
	if len(v.Imms) < 4 || len(v.Imms) > 24 {
		t.Errorf("a reader has %d memtables", len(v.Imms))
	}
	check(reader)
	mustPut(t, db, "another", "1")
	if _, err := reader.Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantGet(t, reader, "another", "1", true)
	check(reader)
	closeTest(t, reader)

	closeTest(t, db)
	var flushes atomic.Int64
	o.MemtableSize, o.OnEvent = 4<<10, func(e Event) {
		if e.Kind == EventFlush {
			flushes.Add(1)
		}
	}
	db = mustOpen(t, "db", o)
	check(db)
	mustPut(t, db, "more", "1")
	mustFlush(t, db)
	check(db)
	if n := flushes.Load(); n > 28 {
		t.Errorf("%d flushes", n)
	}
	closeTest(t, db)
}

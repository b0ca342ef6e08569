package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// These tests hold the rows of docs/FAILURES.md that are about what lies on
// disk.

// damagedStore is a closed store with three tables in level 0 and a log with
// 20 writes, all of which go by the keys k000 to k079.
func damagedStore(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem, CompactionWorkers: -1})
	for i := range 80 {
		if err := db.Put(fmt.Appendf(nil, "k%03d", i), bytes.Repeat([]byte{byte(i)}, 200)); err != nil {
			t.Fatal(err)
		}
		if i%20 == 19 && i < 60 {
			if err := db.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return mem
}

// storeFiles returns all files of the store but the lock, and those that are removed meanwhile.
func storeFiles(t testing.TB, mem *vfs.Mem) map[string]string {
	t.Helper()
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		f, err := mem.Open(filepath.Join("db", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// keepEverything is the crash that loses nothing.
var keepEverything = vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep}

// writeFile replaces a file.
func writeFile(mem *vfs.Mem, name string, data []byte) error {
	f, err := mem.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Close()
}

// fileNamed returns the first file whose name has the part.
func fileNamed(t *testing.T, mem *vfs.Mem, part string) string {
	t.Helper()
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.Contains(name, part) {
			return filepath.Join("db", name)
		}
	}
	t.Fatalf("no file has %q in its name: %v", part, names)
	return ""
}

// editFile changes a file of the store.
func editFile(t testing.TB, mem *vfs.Mem, name string, change func(f vfs.File, size int64) error) {
	t.Helper()
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err == nil {
		err = change(f, size)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// flipByte inverts a byte.
func flipByte(offset int64) func(f vfs.File, size int64) error {
	return func(f vfs.File, size int64) error {
		if offset < 0 {
			offset += size
		}
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, offset); err != nil && err != io.EOF {
			return err
		}
		_, err := f.WriteAt([]byte{^b[0]}, offset)
		return err
	}
}

// A damaged block is an error for those who need it, and for nobody else; the
// writer of level 0 is not stopped, and the damage is counted.
func TestGet_DamagedBlock(t *testing.T) {
	mem := damagedStore(t)
	editFile(t, mem, fileNamed(t, mem, ".sst"), flipByte(20))
	events := make(chan Event, 100)
	db := mustOpen(t, "db", &Options{FS: mem, CompactionWorkers: -1, OnEvent: func(e Event) { events <- e }})
	var damage *CorruptionError
	if _, err := db.Get([]byte("k000")); !errors.As(err, &damage) || !strings.HasSuffix(damage.File, ".sst") || damage.Offset < 0 {
		t.Errorf("Get of a key in the damaged block: %v, want a CorruptionError with file and offset", err)
	}
	if len(events) == 0 {
		t.Fatal("no event tells of the damage")
	}
	if e := <-events; e.Kind != EventCorruption || db.Metrics().CorruptionsMet != 1 {
		t.Errorf("event %v, CorruptionsMet %d, want %v and 1", e.Kind, db.Metrics().CorruptionsMet, EventCorruption)
	}
	for i := 20; i < 80; i++ {
		if v, err := db.Get(fmt.Appendf(nil, "k%03d", i)); err != nil || len(v) != 200 {
			t.Errorf("Get(k%03d) beside the damage: %d bytes, %v", i, len(v), err)
		}
	}
	if err := db.Put([]byte("new"), nil); err != nil {
		t.Errorf("Put beside the damage: %v", err)
	}
	n := 0
	for _, err := range db.Scan(Range{}) {
		if err != nil {
			damage = nil
			if !errors.As(err, &damage) {
				t.Errorf("Scan: %v, want a CorruptionError", err)
			}
			n = -1000
		}
		n++
	}
	if n > 0 {
		t.Errorf("Scan met no damage in %d entries", n)
	}
	if err := db.Verify(context.Background()); !errors.As(err, &damage) {
		t.Errorf("Verify: %v, want a CorruptionError", err)
	}
}

// One writer, any number of readers next to it.
func TestOpen_Locked(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	_, err := Open(dir, nil)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("a second Open: %v, want ErrLocked with process id %d", err, os.Getpid())
	}
	reader := mustOpen(t, dir, &Options{ReadOnly: true})
	if err := reader.Put([]byte("k"), nil); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Put to a read-only store: %v, want ErrReadOnly", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "none"), &Options{Exist: MustExist}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open with MustExist of nothing: %v, want fs.ErrNotExist", err)
	}
}

// A store whose writes are all in logs is taken for none as little as one with
// tables, when CURRENT is gone.
func TestOpen_LogsWithoutCurrent(t *testing.T) {
	for name, opts := range map[string]Options{"plain": {}, "MustExist": {Exist: MustExist}, "ReadOnly": {ReadOnly: true}} {
		opts.FS = vfs.NewMem()
		db := mustOpen(t, "db", &Options{FS: opts.FS})
		mustPut(t, db, "k", "v")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := opts.FS.Remove("db/CURRENT"); err != nil {
			t.Fatal(err)
		}
		var damage *CorruptionError
		if _, err := Open("db", &opts); !errors.As(err, &damage) || damage.File != "CURRENT" {
			t.Errorf("%s: Open: %v, want a CorruptionError of CURRENT", name, err)
		}
		if name == "plain" {
			continue
		}
		if _, err := Open("elsewhere", &opts); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Open of no store: %v, want fs.ErrNotExist", name, err)
		}
	}
}

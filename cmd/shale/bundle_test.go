package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// Whatever operation fails when a file is replaced, the name has the old content
// or the new one, and nothing else is left. A crash at any time leaves one of the
// two as well, once both were synced.
func TestReplaceFile_FaultsAndCrashes(t *testing.T) {
	content := func(fs vfs.FS) string {
		f, err := fs.Open("dir/file")
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		size, err := f.Size()
		b := make([]byte, size)
		if n, rerr := f.ReadAt(b, 0); err != nil || n < len(b) {
			return errors.Join(err, rerr).Error()
		}
		return string(b)
	}
	replace := func(fs vfs.FS, text string) error {
		_, err := replaceFile(fs, "dir/file", func(w io.Writer) (int, error) { return io.WriteString(w, text) })
		return err
	}
	errDevice, seed := errors.New("device"), rand.Uint64()
	for failAt := 0; ; failAt++ {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("dir"); err != nil {
			t.Fatal(err)
		}
		if err := replace(mem, "old"); err != nil {
			t.Fatal(err)
		}
		ops := 0
		faults := vfs.NewFault(mem, func(vfs.Op, string, int64) error {
			if ops++; ops-1 == failAt {
				return errDevice
			}
			return nil
		})
		err := replace(faults, "new")
		if ops <= failAt {
			if err != nil || content(mem) != "new" || failAt < 5 {
				t.Errorf("%d operations without a fault: %v, %q", ops, err, content(mem))
			}
			return
		}
		if !errors.Is(err, errDevice) {
			t.Errorf("operation %d fails, the error is %v", failAt, err)
		}
		for _, config := range vfs.CrashConfigs(seed) {
			if got := content(mem.Crash(config)); got != "old" && got != "new" {
				t.Errorf("operation %d fails, then a crash, %v: %q", failAt, config, got)
			}
		}
		names, err := mem.List("dir")
		if got := content(mem); got != "old" && got != "new" || err != nil || !slices.Equal(names, []string{"file"}) {
			t.Errorf("operation %d fails: %q, %v, %v", failAt, got, names, err)
		}
	}
}

// An export beside a program that has the store open has what that wrote, also
// what is in its memtable only.
func TestFiltersExport_BesideAWriter(t *testing.T) {
	dir := t.TempDir()
	db, err := shale.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.Put([]byte("flushed"), nil), db.Flush(t.Context()), db.Put([]byte("k"), nil)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "filters")
	if out, notes, st := call("", "filters", "export", filepath.Join(dir, "db"), file); st != found || !strings.Contains(out, "2 keys") {
		t.Fatalf("export: status %d, %s%s", st, out, notes)
	}
	if out, notes, st := call("", "filters", "may", file, "k", "flushed"); st != found || out != "k\tmaybe\nflushed\tmaybe\n" {
		t.Errorf("may: status %d, %s%s", st, out, notes)
	}
	_, notes, st := call("", "filters", "export", filepath.Join(dir, "db"), filepath.Join(dir, "none", "filters"))
	if st != failed || !strings.Contains(notes, "none") {
		t.Errorf("export into a folder that is not there: status %d, %s", st, notes)
	}
}

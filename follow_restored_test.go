package shale

import (
	"context"
	"errors"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
)

// copyDir makes dir to a copy of dir from, which nobody writes. Files that are in to already stay.
func copyDir(t testing.TB, fsys vfs.FS, from, to string) {
	t.Helper()
	names, err := fsys.List(from)
	if err == nil {
		err = fsys.MkdirAll(to)
	}
	for _, name := range names {
		if err == nil && name != base.LockName {
			err = durable.Copy(fsys, from+"/"+name, to+"/"+name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// replaceDir puts directory with in the place of dir, and returns where what was there is now.
func replaceDir(t testing.TB, fsys vfs.FS, dir, with, old string) {
	t.Helper()
	if err := errors.Join(fsys.Rename(dir, old), fsys.Rename(with, dir)); err != nil {
		t.Fatal(err)
	}
}

// A store is restored from a copy next to a handle that has shown writes from after the copy, and is written again. The
// handle says that the directory was replaced: the new log has the number and the store of the one that it has
// read, and a record begins where it has stopped.
func TestAdvance_RestoredCopy(t *testing.T) {
	mem := vfs.NewMem()
	opts := Options{FS: mem}
	write := func(keys ...string) {
		t.Helper()
		db := openTest(t, &opts)
		for _, k := range keys {
			mustPut(t, db, k, "value")
		}
		closeTest(t, db)
	}
	write("a")
	copyDir(t, mem, "db", "copy")
	write("b")
	ro := opts
	ro.ReadOnly = true
	reader := openTest(t, &ro)
	defer closeTest(t, reader)
	replaceDir(t, mem, "db", "copy", "gone")
	write("c", "d", "e")
	for range 3 {
		if seq, err := reader.Advance(context.Background()); !errors.Is(err, ErrReplaced) || seq != 2 {
			t.Errorf("Advance = %d, %v; want 2, ErrReplaced", seq, err)
		}
		if got := scanAll(t, reader, Range{}); got != "a=value b=value" {
			t.Errorf("the handle shows %s", got)
		}
	}
	again := openTest(t, &ro)
	if got := scanAll(t, again, Range{}); got != "a=value c=value d=value e=value" {
		t.Errorf("a new handle shows %s", got)
	}
	closeTest(t, again)
}

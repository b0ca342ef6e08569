package shale

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// An atticFS has the files of a directory there, or else in the directory attic.
type atticFS struct{ vfs.FS }

func (a atticFS) Open(name string) (vfs.File, error) {
	file, err := a.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return a.FS.Open(filepath.Join("attic", filepath.Base(name)))
	}
	return file, err
}

// evict moves a table to the attic as a program does that keeps tables elsewhere.
func (a atticFS) evict(t *testing.T, db *DB, num uint64) {
	t.Helper()
	name := base.TableName(base.FileNum(num))
	err := errors.Join(a.MkdirAll("attic"), a.Link(filepath.Join("db", name), filepath.Join("attic", name)), ShippingOf(db).Evict(num))
	if _, serr := a.Stat(filepath.Join("db", name)); err != nil || !errors.Is(serr, fs.ErrNotExist) {
		t.Fatalf("Evict: %v; the file: %v", err, serr)
	}
}

// evictedStore returns a store all of whose tables are in the attic, and its keys and values.
func evictedStore(t *testing.T) (atticFS, *Options, *DB, string) {
	t.Helper()
	attic, opts := atticFS{vfs.NewMem()}, small()
	opts.FS, opts.CompactionWorkers = attic, -1
	db := mustOpen(t, "db", opts)
	fill(t, db, 2000, 0)
	settle(t, db)
	want := scanAll(t, db, Range{})
	if err := ShippingOf(db).Elsewhere("the attic"); err != nil {
		t.Fatal(err)
	}
	open, tables := attic.FS.(*vfs.Mem).OpenFiles(), db.Inspect().Tables()
	for _, table := range tables {
		attic.evict(t, db, table.Number)
	}
	if closed := open - attic.FS.(*vfs.Mem).OpenFiles(); closed != len(tables) {
		t.Errorf("%d files were closed when %d tables had gone", closed, len(tables))
	}
	return attic, opts, db, want
}

// A store whose tables were all evicted reads them where they are, also when it is opened again. Without that place Open
// names it, and says nothing of damage.
func TestShipping_Evict(t *testing.T) {
	attic, opts, db, want := evictedStore(t)
	same := func(when string) {
		t.Helper()
		if got := scanAll(t, db, Range{}); got != want {
			t.Errorf("%s: %d bytes of entries, want %d", when, len(got), len(want))
		}
	}
	same("after Evict")
	closeTest(t, db)
	wantNoOpenFiles(t, attic.FS.(*vfs.Mem))
	db = mustOpen(t, "db", opts)
	same("opened again")
	closeTest(t, db)
	for _, readOnly := range []bool{false, true} {
		plain := *opts
		plain.FS, plain.ReadOnly = attic.FS, readOnly
		_, err := Open("db", &plain)
		var damage *CorruptionError
		if !errors.Is(err, ErrElsewhere) || errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "the attic") {
			t.Errorf("Open without the attic, ReadOnly %v: %v", readOnly, err)
		}
	}
}

// A table is needed as long as an iterator reads it, and its file may go as long. Evict of one that nobody needs does nothing.
func TestShipping_Needs(t *testing.T) {
	attic, _, db, want := evictedStore(t)
	first := db.Inspect().Tables()[0].Number
	it := db.NewIterator(Range{})
	if err := errors.Join(db.DeleteRange(nil, nil), db.Compact(t.Context(), Range{})); err != nil {
		t.Fatal(err)
	}
	if !ShippingOf(db).Needs(first) {
		t.Error("a table is not needed that an iterator reads")
	}
	var got strings.Builder
	for ok := it.First(); ok; ok = it.Next() {
		got.WriteString(string(it.Key()) + "=" + string(it.Value()) + " ")
	}
	if err := it.Err(); err != nil || strings.TrimSpace(got.String()) != strings.TrimSpace(want) {
		t.Errorf("the iterator finds %d bytes, want %d; %v", got.Len(), len(want), err)
	}
	_ = it.Close()
	testenv.WaitFor(t, "nobody to need the table", func() bool { return !ShippingOf(db).Needs(first) })
	if err := ShippingOf(db).Evict(first); err != nil {
		t.Errorf("Evict of a table that nobody needs: %v", err)
	}
	fill(t, db, 2000, 1)
	mustFlush(t, db)
	for _, table := range db.Inspect().Tables() {
		attic.evict(t, db, table.Number)
	}
	closeTest(t, db)
	if err := ShippingOf(db).Evict(first); !errors.Is(err, ErrClosed) {
		t.Errorf("Evict after Close: %v", err)
	}
}

// A checkpoint has all tables, so in its manifest they are nowhere else.
func TestShipping_ElsewhereOfCheckpoint(t *testing.T) {
	opts := small()
	mem := vfs.NewMem()
	opts.FS = mem
	db := openTest(t, opts)
	fill(t, db, 100, 0)
	if err := errors.Join(ShippingOf(db).Elsewhere("the attic"), db.Checkpoint("copy")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"db": "the attic", "copy": ""} {
		state, err := manifest.Load(mem, dir)
		if err != nil || state.Elsewhere != want {
			t.Errorf("%s: elsewhere %q, %v; want %q", dir, state.Elsewhere, err, want)
		}
	}
}

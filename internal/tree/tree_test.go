package tree

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A treeWorld stands for the store in tests of a Tree.
type treeWorld struct {
	t       *testing.T
	mem     *vfs.Mem
	failing bool       // appends to the manifest fail, and so does making another
	dead    []Obsolete // versions without users
	gone    []string
	failed  int
	*Tree
}

func newTreeWorld(t *testing.T) *treeWorld {
	w := &treeWorld{t: t, mem: vfs.NewMem()}
	if err := w.mem.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	faults := faultfs.New(w.mem, func(op vfs.Op, name string, _ int64) error {
		if w.failing && op != vfs.OpRead {
			return syscall.EIO
		}
		return nil
	})
	w.Tree = New(Env{
		FS: faults, Dir: "d",
		Visible: func() base.Seq { return 5 },
		Obsolete: func(files ...Obsolete) {
			for _, f := range files {
				if f.version != nil {
					w.dead = append(w.dead, f)
				} else {
					w.gone = append(w.gone, f.Name)
				}
			}
		},
		Remove: func() {
			for _, o := range w.dead {
				w.Retire(o)
			}
			w.dead = nil
		},
		Failed: func(string, error) { w.failed++ },
	})
	if _, _, err := w.Load(new(manifest.Version), Loading{NextFileNum: 1}); err != nil {
		t.Fatal(err)
	}
	if err := w.BeginManifest(&manifest.State{Version: new(manifest.Version), StoreID: 1, NextFileNum: 1, MinLog: 1}); err != nil {
		t.Fatal(err)
	}
	return w
}

// create makes an empty file.
func (w *treeWorld) create(name string) {
	w.t.Helper()
	f, err := w.mem.Create("d/" + name)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// flush installs a run of one table in level 0, and returns the table.
func (w *treeWorld) flush() (*Table, error) {
	num := w.NewPending()
	meta := &manifest.Table{Num: num, Size: 100, Smallest: []byte("a"), Largest: []byte("z"), Entries: 2, Keys: 2, MinSeq: 1, MaxSeq: base.Seq(num)}
	opened := &Table{Meta: meta, Reader: new(sstable.Reader)}
	edit := &manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(num), Table: meta}}}
	return opened, w.edit(edit, opened)
}

func (w *treeWorld) edit(edit *manifest.Edit, opened ...*Table) error {
	c := w.Begin()
	defer c.End()
	err := c.Log(edit, opened, nil)
	c.End()
	switch {
	case err != nil && (c.Next != nil || w.current() != c.Old):
		w.t.Error("a version is current whose edit is not durable")
	case err == nil && (c.Next == nil || w.current() != c.Next):
		w.t.Error("the next version is not the current one")
	}
	return err
}

// A table is removed when the last version that has it is released, and not before.
func TestTree_KeepsWhatVersionsNeed(t *testing.T) {
	w := newTreeWorld(t)
	table, err := w.flush()
	if err != nil {
		t.Fatal(err)
	}
	held := w.version
	if !held.Acquire() {
		t.Fatal("the current version is gone")
	}
	if err := w.edit(&manifest.Edit{Removed: []manifest.Removed{{Level: 0, Num: table.Meta.Num}}}); err != nil {
		t.Fatal(err)
	}
	if len(w.gone) > 0 || !w.Needs(base.FileTable, table.Meta.Num) {
		t.Errorf("gone while a version has it: %q", w.gone)
	}
	w.Release(held)
	if want := []string{base.TableName(table.Meta.Num)}; !slices.Equal(w.gone, want) || w.Needs(base.FileTable, table.Meta.Num) {
		t.Errorf("gone %q, want %q", w.gone, want)
	}
}

// After a failed append, nothing more is appended to that manifest. The tables
// of the edit stay until the next manifest, because the first one may name them.
func TestTree_DoubtfulAfterAFailedAppend(t *testing.T) {
	w := newTreeWorld(t)
	before := w.journal.num
	w.failing = true
	doubtful, err := w.flush()
	if !errors.Is(err, syscall.EIO) || w.failed == 0 {
		t.Fatalf("install = %v, %d failures were reported", err, w.failed)
	}
	name := base.TableName(doubtful.Meta.Num)
	w.RemovePending(doubtful.Meta.Num, name) // as whoever wrote the table does
	if w.version.Meta.NumTables() != 0 || slices.Contains(w.gone, name) {
		t.Errorf("%d tables; gone %q", w.version.Meta.NumTables(), w.gone)
	}
	w.failing = false
	if _, err := w.flush(); err != nil {
		t.Fatal(err)
	}
	// The manifest whose creation has failed has the number after the table.
	failed := base.ManifestName(doubtful.Meta.Num + 1)
	if !slices.Contains(w.gone, name) || !slices.Contains(w.gone, base.ManifestName(before)) || !slices.Contains(w.gone, failed) || w.journal.num == before {
		t.Errorf("after another manifest (%d, was %d) gone are %q", w.journal.num, before, w.gone)
	}
	state, err := manifest.Load(w.mem, "d")
	if err != nil || state.Version.NumTables() != 1 || state.LastSeq != 5 {
		t.Errorf("the manifest has %v, %v", state, err)
	}
}

// A long manifest is replaced by one that begins with the state.
func TestTree_LongManifest(t *testing.T) {
	w := newTreeWorld(t)
	before := w.journal.num
	w.journal.limit = 0
	if _, err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if w.journal.num == before || w.journal.limit < maxManifestSize || !w.Needs(base.FileManifest, w.journal.num) || w.Needs(base.FileManifest, before) {
		t.Errorf("manifest %d, was %d, limit %d", w.journal.num, before, w.journal.limit)
	}
	if err := w.CloseManifest(false); err != nil {
		t.Fatal(err)
	}
}

// The file of a table that is being written is removed when it is given up, once.
func TestTree_Pending(t *testing.T) {
	w := newTreeWorld(t)
	num := w.NewPending()
	name := base.TableName(num)
	w.create(name)
	w.RemovePending(num, name)
	if _, err := w.mem.Stat("d/" + name); err == nil {
		t.Errorf("%s is still there", name)
	}
	w.create(name)
	w.RemovePending(num, name)
	if _, err := w.mem.Stat("d/" + name); err != nil {
		t.Errorf("a file that is not pending is removed: %v", err)
	}
}

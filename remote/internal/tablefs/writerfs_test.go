package tablefs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// writerFS returns the file system of a writer over the directory of p, which has all tables, and how often it has asked for
// room.
func (p *published) writerFS() (w *WriterFS, asked *int) {
	asked = new(int)
	b := New(p.bucket, p.storeID, p.mem, "db/copies", NewPageCache(1<<20))
	p.t.Cleanup(func() { _ = b.Close() })
	return &WriterFS{FS: FS{FS: p.mem, Tables: b}, Room: func() { *asked++ }}, asked
}

// add makes a table known that is a local file.
func (w *WriterFS) add(t *testing.T, f File) {
	t.Helper()
	src, err := w.FS.FS.Open(filepath.Join("db", f.LocalName()))
	mustNil(t, err)
	defer src.Close()
	before := w.Tables.CopyBytes()
	tail, err := w.Tables.Add(f, src)
	mustNil(t, err)
	if more := w.Tables.CopyBytes() - before; more != tail {
		t.Errorf("a tail of %d bytes takes %d", tail, more)
	}
}

// A table goes through the three states, and is the same in all of them.
func TestWriterFS(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{CompactionWorkers: -1})
	w, _ := p.writerFS()
	f := FileOf(p.version.Levels[len(p.version.Levels)-1].Runs[0].Tables[0])
	name := filepath.Join("db", f.LocalName())
	tail := filepath.Join("db/copies", filepath.FromSlash(f.Name()))
	want := remotetest.ReadFile(t, p.mem, name)
	same := func(when string, wantGets bool) {
		t.Helper()
		gets, _ := p.bucket.During(func() {
			if got := remotetest.ReadFile(t, w, name); string(got) != string(want) {
				t.Errorf("%s: %d bytes, want %d", when, len(got), len(want))
			}
		})
		if gets > 0 != wantGets {
			t.Errorf("%s: %d GETs", when, gets)
		}
	}
	gets, _ := p.bucket.During(func() { w.add(t, f) })
	if _, err := p.mem.Stat(tail); gets > 0 || err != nil || !w.Tables.Has(f.Object()) {
		t.Errorf("after Add: %d GETs, known %v, the tail: %v", gets, w.Tables.Has(f.Object()), err)
	}
	same("as a file", false)
	mustNil(t, w.Remove(name))
	same("as an object", true)
	if info, err := w.Stat(name); err != nil || info.Size != f.Size {
		t.Errorf("Stat: %+v, %v", info, err)
	}
	if err := w.Link(name, "copy"); !errors.Is(err, base.ErrElsewhere) {
		t.Errorf("Link: %v", err)
	}
	open, err := w.Open(name)
	mustNil(t, err)
	mustNil(t, w.Remove(name))
	if _, err := w.Open(name); !errors.Is(err, fs.ErrNotExist) || w.Tables.Has(f.Object()) {
		t.Errorf("Open of a table that nobody needs: %v", err)
	}
	mustNil(t, open.Close())
	if _, err := p.mem.Stat(tail); !errors.Is(err, fs.ErrNotExist) || w.Tables.CopyBytes() != 0 {
		t.Errorf("the tail of a table that nobody needs: %v, %d bytes", err, w.Tables.CopyBytes())
	}
	if err := w.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of what is not there: %v", err)
	}
}

// Tails are what a lookup of an absent key reads, and no more: that of a small table is not the table.
func TestWriterFS_TailsAreExact(t *testing.T) {
	for _, n := range []int{500, 5000, 50_000} {
		p := publishTables(t, n, shale.Options{CompactionWorkers: -1})
		w, _ := p.writerFS()
		sum := int64(0)
		for f := range FilesOf(p.version) {
			w.add(t, f)
			sum += f.Size
		}
		if tails := w.Tables.CopyBytes(); tails > sum/20+4<<10 || tails < int64(n) {
			t.Errorf("%d keys: the tails have %d of %d bytes", n, tails, sum)
		}
		for f := range FilesOf(p.version) {
			name := filepath.Join("db", f.LocalName())
			mustNil(t, errors.Join(w.Remove(name), w.Remove(name))) // first the file goes, then the table
		}
		if tails := w.Tables.CopyBytes(); tails != 0 {
			t.Errorf("%d keys: %d bytes of tails are left that nobody needs", n, tails)
		}
	}
}

// Only tables wait for room: a sidecar is small, and the logs and the manifest must go on.
func TestWriterFS_Room(t *testing.T) {
	p := publishTables(t, 10, shale.Options{CompactionWorkers: -1})
	w, asked := p.writerFS()
	for name, want := range map[string]int{
		base.TableName(900): 1, base.FilterName(901): 0, base.LogName(902): 0, "CURRENT.tmp": 0,
	} {
		*asked = 0
		file, err := w.Create(filepath.Join("db", filepath.Base(name)))
		mustNil(t, errors.Join(err, file.Close()))
		if *asked != want {
			t.Errorf("%s asked for room %d times", name, *asked)
		}
	}
}

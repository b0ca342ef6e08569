package tablefs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestTails_SecondGet has tables with an index that is larger than the guess: two GETs bring all of it.
func TestTails_SecondGet(t *testing.T) {
	p := publishTables(t, 60_000, shale.Options{TableSize: 64 << 20, MemtableSize: 64 << 20, BlockSize: 256, CompactionWorkers: -1})
	var db *shale.DB
	gets, _ := p.bucket.During(func() { db = p.reader(p.files(nil, ""), shale.Options{CacheSize: -1}) })
	if most := 2 * p.version.NumTables(); gets > most || gets <= p.version.NumTables() {
		t.Errorf("%d GETs for %d tables, want 2 for some of them", gets, p.version.NumTables())
	}
	gets, _ = p.bucket.During(func() {
		for i := range 10_000 {
			if ok, err := db.Has(append(testKey(i), 'x')); ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	})
	if gets > 200 {
		t.Errorf("%d GETs of 10,000 absent keys", gets)
	}
}

// TestTails_EveryByte flips each byte of a local tail, and cuts it at each length: it is fetched again, with
// the right bytes.
func TestTails_EveryByte(t *testing.T) {
	p := publishTables(t, 60, shale.Options{CompactionWorkers: -1})
	local := vfs.NewMem()
	f := slices.Collect(FilesOf(p.version))[0]
	want := remotetest.ReadFile(t, p.mem, "db/"+f.LocalName())
	fetched := 0
	get := func(ctx context.Context, f File, b []byte, off int64) error {
		fetched++
		return p.get(ctx, f, b, off)
	}
	make1 := func() *tailCache { return newTailCache(local, "cache", p.storeID, get) }
	first, err := make1().get(t.Context(), f)
	mustNil(t, err)
	path := make1().path(f.fileID)
	good := remotetest.ReadFile(t, local, path)
	check := func(t *testing.T, ts *tailCache, l *tail) error {
		b := make([]byte, l.file.Size-l.at)
		if err := readTail(ts, l, b); err != nil {
			return err
		}
		if !bytes.Equal(b, want[l.at:]) {
			t.Fatal("the tail has other bytes")
		}
		return nil
	}
	mustNil(t, check(t, make1(), first))
	damaged := 0
	for i := 0; i < len(good); i++ {
		for _, change := range []func([]byte) []byte{
			func(b []byte) []byte { return remotetest.Flipped(b, 8*i+i%8) },
			func(b []byte) []byte { return b[:i] },
		} {
			remotetest.ChangeFile(t, local, path, func([]byte) []byte { return change(good) })
			ts := make1()
			fetched = 0
			l, err := ts.get(t.Context(), f)
			mustNil(t, err)
			if err = check(t, ts, l); err != nil {
				damaged++
				if !errors.Is(err, errBadTail) {
					t.Fatalf("byte %d: %v", i, err)
				}
				l, err = ts.get(t.Context(), f)
				mustNil(t, err)
				mustNil(t, check(t, ts, l))
			}
			if fetched == 0 {
				t.Fatalf("byte %d: the damage was not noticed", i)
			}
			if !bytes.Equal(remotetest.ReadFile(t, local, path), good) {
				t.Fatalf("byte %d: the local tail was not made good", i)
			}
		}
	}
	if damaged == 0 {
		t.Error("no damage was found by a read")
	}
}

// readTail reads a tail as an open table does.
func readTail(ts *tailCache, l *tail, b []byte) error {
	var f tailFile
	err := f.readAt(ts, l, b, l.at)
	return cmp.Or(err, f.close())
}

// TestTails_DiskFull can't write the local tail: it is in memory then.
func TestTails_DiskFull(t *testing.T) {
	p := publishTables(t, 3000, shale.Options{CompactionWorkers: -1})
	f := slices.Collect(FilesOf(p.version))[0]
	faults := faultfs.New(vfs.NewMem(), nil)
	faults.Inject(func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpWrite {
			return errors.New("full")
		}
		return nil
	})
	ts := newTailCache(faults, "cache", p.storeID, p.get)
	l, err := ts.get(t.Context(), f)
	mustNil(t, err)
	b := make([]byte, l.file.Size-l.at)
	mustNil(t, readTail(ts, l, b))
}

// TestTails_Sweep removes what an earlier reader has left, and nothing of others.
func TestTails_Sweep(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{TableSize: 256 << 10, CompactionWorkers: -1})
	local := vfs.NewMem()
	p.files(local, "cache")
	all := slices.Collect(FilesOf(p.version))
	f, err := local.Create("cache/t/" + "notes.txt")
	mustNil(t, err)
	mustNil(t, f.Close())
	ts := newTailCache(local, "cache", p.storeID, p.get)
	mustNil(t, ts.Sweep(func(o object.Name) bool { return o == all[0].Object() }))
	for i, f := range all {
		if there := ts.load(&tail{file: f}) != nil; there != (i == 0) {
			t.Errorf("tail %d is there: %v", i, there)
		}
	}
	if _, err := local.Stat("cache/t/notes.txt"); err != nil {
		t.Error(err)
	}
}

// Tables whose tails are local are learned without opening a file. Each is opened and read with one file, which is closed with
// it, also if it was asked for twice at the same time. A table whose tail is not local is fetched at once.
func TestTables_LearnFirst(t *testing.T) {
	p := publishTables(t, 20_000, shale.Options{TableSize: 256 << 10, CompactionWorkers: -1})
	local := &openFS{FS: vfs.NewMem()}
	p.files(local, "cache")
	all := slices.Collect(FilesOf(p.version))
	if len(all) < 3 || local.open.Load() != 0 {
		t.Fatalf("%d tables, %d open files", len(all), local.open.Load())
	}
	mustNil(t, local.Remove("cache/"+all[0].Name()))
	tables := New(p.bucket, p.storeID, local, "cache", NewPageCache(1<<20))
	defer tables.Close()
	before := local.all.Load()
	gets, _ := p.bucket.During(func() { mustNil(t, tables.LearnFirst(t.Context(), slices.Clone(all[:len(all)-1]))) })
	if opened := local.all.Load() - before; gets != 1 || opened != 0 {
		t.Errorf("learning took %d GETs and opened %d files", gets, opened)
	}
	if _, err := local.Stat("cache/" + all[len(all)-1].Name()); err == nil {
		t.Error("the tail of an unknown table has stayed")
	}
	f := all[1]
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			file, err := tables.open(f.LocalName(), f.Object())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := file.ReadAt(make([]byte, 100), f.Size-100); err != nil {
				t.Error(err)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if opened := local.all.Load() - before; opened > 4 || local.open.Load() != 0 {
		t.Errorf("four files of a table opened %d files, of which %d are open", opened, local.open.Load())
	}
}

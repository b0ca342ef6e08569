package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// fewFiles is a store of 97 tables, and the options of a handle that reads it with 16 descriptors and no cache.
func fewFiles(t *testing.T) (db *DB, mem *vfs.Mem, ro Options) {
	t.Helper()
	mem = vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers, opts.Compression = -1, NoCompression
	db = tablesStore(t, 97, &opts)
	ro = opts
	ro.ReadOnly, ro.Tuning.MaxOpenFiles, ro.CacheSize = true, 16, -1
	return db, mem, ro
}

// overwriteAll changes the value of every key, and removes all tables that there were.
func overwriteAll(t testing.TB, db *DB, value string) {
	t.Helper()
	for i := range 97 * 5 {
		mustPut(t, db, fmt.Sprintf("k%05d", i), value)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	awaitRemovals(t, db)
}

// A read-only handle has no more tables open than MaxOpenFiles says. What begins to read advances by itself if the
// writer has removed a table that was closed; what reads an older state says why it can't.
func TestAdvance_FewOpenFiles(t *testing.T) {
	testenv.SkipRace(t)
	db, mem, o := fewFiles(t)
	value := strings.Repeat("v", 900)
	key := []byte("k00123")
	reads := map[string]func(ro *DB) (string, error){
		"Get": func(ro *DB) (string, error) { v, err := ro.Get(key); return string(v), err },
		"ViewValue": func(ro *DB) (s string, err error) {
			err = ro.ViewValue(key, func(v []byte) error { s = string(v); return nil })
			return s, err
		},
		"Scan": func(ro *DB) (string, error) {
			for e, err := range ro.Scan(Range{Lower: key}) {
				return string(e.Value), err
			}
			return "", nil
		},
		"Scan back": func(ro *DB) (string, error) {
			for e, err := range ro.Scan(Range{Upper: append(key, 0), Reverse: true}) {
				return string(e.Value), err
			}
			return "", nil
		},
		"GetMany": func(ro *DB) (s string, err error) {
			err = ro.GetMany([][]byte{key, []byte("k00321")}, func(i int, v []byte, _ bool) error {
				if i > 0 && string(v) != s {
					return fmt.Errorf("two states: %.9q and %.9q", s, v)
				}
				s = string(v)
				return nil
			})
			return s, err
		},
		"Explain": func(ro *DB) (string, error) { x, err := ro.Inspect().Explain(key); return string(x.Value), err },
	}
	for n, name := range slices.Sorted(maps.Keys(reads)) {
		before := mem.OpenFiles()
		ro, err := Open("db", &o)
		if err != nil {
			t.Fatal(err)
		}
		all := scanAll(t, ro, Range{})
		if open := mem.OpenFiles() - before; open > o.Tuning.MaxOpenFiles {
			t.Errorf("the handle has %d files open", open)
		}
		snap, it := mustSnapshot(t, ro), ro.NewIterator(Range{})
		overwriteAll(t, db, strings.Repeat(fmt.Sprint(n), 900))
		old := value
		value = strings.Repeat(fmt.Sprint(n), 900)
		if got, err := reads[name](ro); err != nil || got != value {
			t.Errorf("%s: %.9q, %v; want %.9q", name, got, err, value)
		}
		if got, err := reads[name](ro); err != nil || got != value {
			t.Errorf("%s again: %.9q, %v; want %.9q", name, got, err, value)
		}
		gone, entries := 0, 0
		wantGone := func(what string, err error) {
			gone++
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "Options.Tuning.MaxOpenFiles") {
				t.Errorf("%s: %v, want fs.ErrNotExist and MaxOpenFiles", what, err)
			}
		}
		for i := range 97 * 5 {
			k := fmt.Appendf(nil, "k%05d", i)
			if v, err := snap.Get(k); err != nil {
				wantGone("Get from a snapshot", err)
			} else if string(v) != old {
				t.Fatalf("Get(%s) from a snapshot: %.9q, want %.9q", k, v, old)
			}
			if it.SeekGE(k); it.Err() != nil {
				wantGone("an iterator", it.Err())
			} else if string(it.Value()) != old {
				t.Fatalf("an iterator shows %.9q, want %.9q", it.Value(), old)
			}
		}
		for _, err := range snap.Scan(Range{}) {
			if entries++; err != nil {
				wantGone("Scan of a snapshot", err)
			}
		}
		if gone < 500 || strings.Count(all, "=") != 97*5 {
			t.Errorf("%d reads of the old state failed, want most; a scan had %d keys", gone, strings.Count(all, "="))
		}
		if err := errors.Join(it.Close(), snap.Close(), ro.Close()); err != nil {
			t.Error(err)
		}
		if open := mem.OpenFiles() - before; open > 2 {
			t.Errorf("the handle leaves %d files open", open)
		}
	}
}

// Another state of the store takes the place of the directory, with other tables of the same numbers. A handle that
// opens a table again does not take one for the other.
func TestAdvance_FewOpenFilesBesideARestore(t *testing.T) {
	mem := vfs.NewMem()
	var handles [2]*DB
	var o Options
	for i, dir := range []string{"db", "other"} {
		o = tinyStore(mem)
		o.CompactionWorkers, o.Compression, o.testing.minPrepared = -1, NoCompression, 0 // so that all numbers are alike
		db, err := Open(dir, &o)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 97 {
			for k := range 5 {
				mustPut(t, db, fmt.Sprintf("k%05d", n*5+k), strings.Repeat(string(rune('a'+i)), 900))
			}
			mustFlush(t, db)
		}
		closeTest(t, db)
		o.ReadOnly, o.Tuning.MaxOpenFiles, o.CacheSize = true, 16, -1
		if handles[i], err = Open(dir, &o); err != nil {
			t.Fatal(err)
		}
		defer handles[i].Close() // without Verify: its directory is gone
	}
	ro := handles[0]
	if was, is := ro.Inspect().Tables(), handles[1].Inspect().Tables(); len(was) != 97 || len(is) != 97 || was[50].Number != is[50].Number || was[50].Size != is[50].Size {
		t.Fatalf("the tables differ, so this test is of no use: %v, %v", was[50], is[50])
	}
	it := ro.NewIterator(Range{})
	defer it.Close()
	for _, dirs := range [][2]string{{"db", "was"}, {"other", "db"}} {
		if err := mem.Rename(dirs[0], dirs[1]); err != nil {
			t.Fatal(err)
		}
	}
	gone := 0
	for i := range 97 * 5 {
		key := fmt.Appendf(nil, "k%05d", i)
		v, err := ro.Get(key)
		if err == nil && v[0] != 'a' || err != nil && !errors.Is(err, ErrReplaced) {
			t.Errorf("Get(%s) = %.9q, %v", key, v, err)
		}
		if err != nil {
			gone++
		}
		if it.SeekGE(key) && it.Value()[0] != 'a' {
			t.Errorf("SeekGE(%s): %.9q", key, it.Value())
		}
	}
	if gone == 0 {
		t.Error("no table was opened again, so this test is of no use")
	}
	if _, err := ro.Advance(context.Background()); !errors.Is(err, ErrReplaced) {
		t.Errorf("Advance: %v, want ErrReplaced", err)
	}
}

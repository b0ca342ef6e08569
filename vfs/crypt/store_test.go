package crypt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
	"github.com/shaledb/shale/vfs/faultfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(id uint32, b byte) crypt.Key {
	return crypt.Key{ID: id, Secret: bytes.Repeat([]byte{b}, 32)}
}

func over(t testing.TB, base vfs.FS, keys ...crypt.Key) *crypt.FS {
	t.Helper()
	c, err := crypt.New(base, keys)
	must(t, err)
	return c
}

func open(t testing.TB, disk vfs.FS) *shale.DB {
	t.Helper()
	db, err := shale.Open("db", &shale.Options{FS: disk, MemtableSize: 64 << 10})
	must(t, err)
	return db
}

// fill puts n keys, each with value.
func fill(t testing.TB, db *shale.DB, n int, value string) {
	t.Helper()
	for i := range n {
		must(t, db.Put(fmt.Appendf(nil, "key-%06d", i*7919%n), fmt.Appendf(nil, "%s-%d", value, i)))
	}
}

// read returns what is in the store, as text.
func read(t testing.TB, db shale.Reader) string {
	t.Helper()
	var b strings.Builder
	for e, err := range db.Scan(shale.Range{}) {
		must(t, err)
		fmt.Fprintf(&b, "%s=%s\n", e.Key, e.Value)
	}
	return b.String()
}

// wantOpen checks what Open and repair say, and that they change nothing.
func wantOpen(t *testing.T, what string, mem *vfs.Mem, disk vfs.FS, want error, words ...string) {
	t.Helper()
	before := files(t, mem)
	_, err := shale.Open("db", &shale.Options{FS: disk})
	_, rerr := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk})
	var damage *shale.CorruptionError
	for _, err := range []error{err, rerr} {
		if !errors.Is(err, want) || errors.As(err, &damage) || strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%s: %v, want %v, and no damage", what, err, want)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", what, err, word)
			}
		}
	}
	if !slices.Equal(before, files(t, mem)) {
		t.Errorf("%s: files have changed", what)
	}
}

// files returns the names and bytes of all files of the store.
func files(t *testing.T, mem *vfs.Mem) (all []string) {
	t.Helper()
	names, err := mem.List("db")
	must(t, err)
	for _, name := range names {
		f, err := mem.Open(filepath.Join("db", name))
		must(t, err)
		size, err := f.Size()
		must(t, err)
		b := make([]byte, size)
		_, _ = f.ReadAt(b, 0)
		must(t, f.Close())
		all = append(all, name+string(b))
	}
	return all
}

// A store says which key of which file it lacks, and loses nothing while it lacks one.
func TestStore_Keys(t *testing.T) {
	mem := vfs.NewMem()
	one, two := key(1, 1), key(2, 2)
	db := open(t, over(t, mem, one))
	fill(t, db, 4000, "first")
	must(t, db.Compact(t.Context(), shale.Range{}))
	must(t, db.Close())
	wantOpen(t, "no key", mem, mem, vfs.ErrEncrypted, "CURRENT", "crypt")
	wantOpen(t, "a missing key", mem, over(t, mem, two), crypt.ErrNoKey, "CURRENT", "key 1")
	wantOpen(t, "a wrong key", mem, over(t, mem, two, key(1, 3)), crypt.ErrWrongKey, "CURRENT", "key 1")

	// New files take the new key, and old ones keep theirs.
	both := over(t, mem, one, two)
	db = open(t, both)
	must(t, db.Put([]byte("new"), []byte("2")))
	all := read(t, db)
	must(t, db.Close())
	uses, err := both.Uses("db")
	must(t, err)
	if len(uses) != 2 || !slices.Contains(uses[2], "CURRENT") || slices.ContainsFunc(uses[1], func(name string) bool { return filepath.Ext(name) != ".sst" }) {
		t.Errorf("files by key: %v", uses)
	}

	// Without the old key the store opens, if it reads no old table at once. Reads of such a table fail.
	if db, err := shale.Open("db", &shale.Options{FS: over(t, mem, two)}); err == nil {
		if _, err := db.Get([]byte("key-000001")); !errors.Is(err, crypt.ErrNoKey) {
			t.Errorf("Get from a table without its key: %v", err)
		}
		_ = db.Close()
	} else if !errors.Is(err, crypt.ErrNoKey) {
		t.Errorf("Open: %v", err)
	}

	if report, err := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: over(t, mem, two)}); !errors.Is(err, crypt.ErrNoKey) {
		t.Errorf("repair takes tables without a key for damaged ones: %+v, %v", report, err)
	}
	must(t, both.Rekey("db"))
	if uses, err = both.Uses("db"); err != nil || len(uses) != 1 || uses[2] == nil {
		t.Errorf("after Rekey: %v, %v", uses, err)
	}
	db = open(t, over(t, mem, two))
	if got := read(t, db); got != all {
		t.Error("the store differs after Rekey")
	}
	must(t, db.Verify(t.Context()))
	must(t, db.Close())
}

// A crash in Rekey leaves files that either set of keys opens which has both.
func TestRekey_Crash(t *testing.T) {
	mem := vfs.NewMem()
	one, two := key(1, 1), key(2, 2)
	db := open(t, over(t, mem, one))
	fill(t, db, 100, "x")
	want := read(t, db)
	must(t, db.Close())
	var states []*vfs.Mem
	n := uint64(0)
	mem.OnOp(func(vfs.Op, string) {
		n++
		for _, c := range vfs.CrashConfigs(n) {
			states = append(states, mem.Crash(c))
		}
	})
	must(t, over(t, mem, one, two).Rekey("db"))
	mem.OnOp(nil)
	for _, after := range states {
		disk := over(t, after, one, two)
		must(t, disk.Rekey("db"))
		db := open(t, over(t, after, two))
		if got := read(t, db); got != want {
			t.Fatal("the store differs")
		}
		must(t, db.Close())
	}
	if len(states) < 100 {
		t.Errorf("%d states", len(states))
	}
}

// Whatever fails during a Rekey that reports no error, nothing needs the older key any more.
func TestRekey_Faults(t *testing.T) {
	one, two := key(1, 1), key(2, 2)
	failed := 0
	for k := int64(1); ; k++ {
		mem := vfs.NewMem()
		db := open(t, over(t, mem, one))
		fill(t, db, 20, "x")
		want := read(t, db)
		must(t, db.Close())
		fault := errors.New("injected")
		disk := faultfs.New(mem, faultfs.FailAt(k, fault))
		err := over(t, disk, one, two).Rekey("db")
		switch {
		case err == nil:
			db, err := shale.Open("db", &shale.Options{FS: over(t, mem, two)})
			if err != nil {
				t.Errorf("operation %d failed, Rekey says nothing, and then: %v", k, err)
				break
			}
			if got := read(t, db); got != want {
				t.Errorf("operation %d failed, and the store differs", k)
			}
			must(t, db.Close())
			if disk.Ops() < k {
				if failed < 20 {
					t.Errorf("only %d operations failed", failed)
				}
				return
			}
		case !errors.Is(err, fault):
			t.Errorf("operation %d: %v", k, err)
		}
		failed++
	}
}

func TestStore_Plain(t *testing.T) {
	mem := vfs.NewMem()
	db := open(t, mem)
	fill(t, db, 4000, "plain")
	must(t, db.Close())
	wantOpen(t, "a plain store", mem, over(t, mem, key(1, 1)), crypt.ErrNotEncrypted, "CURRENT")
	must(t, open(t, mem).Close())
}

// Nothing that a store writes shows its keys and values.
func TestStore_NothingShows(t *testing.T) {
	mem := vfs.NewMem()
	db, err := shale.Open("db", &shale.Options{FS: over(t, mem, key(1, 1)), Compression: shale.NoCompression, MemtableSize: 64 << 10})
	must(t, err)
	fill(t, db, 4000, "secret")
	must(t, db.Checkpoint("copy"))
	must(t, db.Close())
	for _, text := range files(t, mem) {
		for _, word := range []string{"secret", "key-00", "MANIFEST-0", "shaleWAL"} {
			if _, content, _ := strings.Cut(text, "shaleENC"); strings.Contains(content, word) {
				t.Errorf("%.20q shows %q", text, word)
			}
		}
	}
}

// Checkpoints, readers next to the writer, repair and damage are as in any other store.
func TestStore_Surroundings(t *testing.T) {
	mem := vfs.NewMem()
	disk := over(t, mem, key(1, 1))
	db := open(t, disk)
	defer db.Close()
	fill(t, db, 4000, "a")
	must(t, db.Checkpoint("copy"))
	reader, err := shale.Open("db", &shale.Options{FS: over(t, mem, key(1, 1)), ReadOnly: true})
	must(t, err)
	defer reader.Close()
	fill(t, db, 4000, "b")
	must(t, db.Sync())
	if _, err := reader.Advance(t.Context()); err != nil || read(t, reader) != read(t, db) {
		t.Errorf("the reader differs: %v", err)
	}
	copied, err := shale.Open("copy", &shale.Options{FS: disk})
	must(t, err)
	defer copied.Close()
	if got := read(t, copied); !strings.Contains(got, "=a-0") || strings.Contains(got, "=b-") {
		t.Error("the checkpoint has something else")
	}
	must(t, db.Flush(t.Context()))
	want := read(t, db)
	must(t, reader.Close())
	must(t, db.Close())

	// A flipped bit of a table is damage, which names the table.
	names, err := mem.List("db")
	must(t, err)
	table := names[slices.IndexFunc(names, func(name string) bool { return filepath.Ext(name) == ".sst" })]
	f, err := mem.OpenReadWrite(filepath.Join("db", table))
	must(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, 4096+20)
	must(t, err)
	good := b[0]
	_, err = f.WriteAt([]byte{good ^ 1}, 4096+20)
	must(t, err)
	var damage *shale.CorruptionError
	db = open(t, disk)
	if err := db.Verify(context.Background()); !errors.As(err, &damage) || !strings.Contains(err.Error(), table) {
		t.Errorf("Verify: %v", err)
	}
	must(t, db.Close())
	report, err := repair.Run(t.Context(), "db", "saved", &repair.Options{FS: disk})
	must(t, err)
	if len(report.Findings) == 0 {
		t.Error("repair finds nothing")
	}
	_, err = f.WriteAt([]byte{good}, 4096+20)
	must(t, errors.Join(err, f.Close()))
	report, err = repair.Run(t.Context(), "db", "saved2", &repair.Options{FS: disk})
	must(t, err)
	saved, err := shale.Open("saved2", &shale.Options{FS: disk})
	must(t, err)
	if len(report.Findings) > 0 || read(t, saved) != want {
		t.Errorf("repair: %v", report.Findings)
	}
	must(t, saved.Close())
}

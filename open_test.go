package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Open refuses a store that is locked, missing or there, as its options say, and options
// that it can't use. A failed Open leaves no file open.
func TestOpen_Refuses(t *testing.T) {
	fsys := vfs.NewMem()
	db := openTest(t, &Options{FS: fsys})
	if _, err := Open("db", &Options{FS: fsys}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		opts Options
		want error
	}{
		{"db", Options{Exist: MustNotExist}, fs.ErrExist},
		{"none", Options{Exist: MustExist}, fs.ErrNotExist},
		{"none", Options{ReadOnly: true}, fs.ErrNotExist},
	} {
		c.opts.FS = fsys
		if _, err := Open(c.dir, &c.opts); !errors.Is(err, c.want) {
			t.Errorf("Open(%q, %+v): %v, want %v", c.dir, c.opts, err, c.want)
		}
	}
	for _, opts := range []Options{{MemtableSize: 1}, {BlockSize: 1}, {TableSize: 1}, {FilterBits: 1000}, {Durability: 7}, {Tuning: Tuning{MaxOpenFiles: 1}}} {
		opts.FS = fsys
		if _, err := Open("db", &opts); err == nil || !strings.Contains(err.Error(), "option") {
			t.Errorf("Open with %+v: %v, want an error that names the option", opts, err)
		}
	}
	if n := fsys.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after failed Opens", n)
	}
}

// A read-only store shows the state that it was opened with while another handle writes. It
// refuses all that changes the store.
func TestOpen_ReadOnly(t *testing.T) {
	testenv.SkipRace(t)
	dir := filepath.Join(t.TempDir(), "db")
	opts := small()
	db, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fill(t, db, 5000, 0)
	waitIdle(t, db)
	db.awaitDeletions(t.Context())
	before := listDir(t, dir)
	ro, err := Open(dir, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if after := listDir(t, dir); after != before {
		t.Errorf("Open has changed the directory from %s to %s", before, after)
	}
	fill(t, db, 5000, 1)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 5000; i += 7 {
		wantGet(t, ro, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
	}
	for name, err := range map[string]error{
		"Put":     ro.Put([]byte("k"), nil),
		"Delete":  ro.Delete([]byte("k")),
		"Flush":   ro.Flush(context.Background()),
		"Compact": ro.Compact(context.Background(), Range{}),
		"Sync":    ro.Sync(),
		"Resume":  ro.Resume(),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", name, err)
		}
	}
	if err := ro.Verify(context.Background()); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

// Open changes nothing in the store of another program, also not a LOCK that it has left there.
func TestOpen_StoreOfAnotherProgram(t *testing.T) {
	for _, o := range []Options{{}, {Exist: MustExist}, {Exist: MustNotExist}, {ReadOnly: true}} {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"CURRENT": "MANIFEST-000002\n", "MANIFEST-000002": "theirs", "000003.log": "", "LOCK": ""}
		for name, data := range files {
			if err := writeFile(mem, filepath.Join("db", name), []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		o.FS = mem
		if _, err := Open("db", &o); err == nil || !strings.Contains(err.Error(), "LevelDB") {
			t.Errorf("Open: %v, want an error that names LevelDB", err)
		}
		for name, data := range files {
			if got := string(readAll(t, mem, filepath.Join("db", name))); got != data {
				t.Errorf("%s is %q now", name, got)
			}
		}
		if names, err := mem.List("db"); err != nil || len(names) != len(files) {
			t.Errorf("the directory has %q, %v", names, err)
		}
	}
}

// The store's directory has files that the store did not make. If shale would not choose
// their names, they stay as they are. Otherwise Open removes them as leftovers, or reports
// them as damage. None of them makes an answer wrong, or makes a new file overwrite another.
func TestOpen_Strangers(t *testing.T) {
	testenv.SkipRace(t)
	zeros, garbage := strings.Repeat("\x00", 8192), strings.Repeat("garbage ", 1024)
	store := damagedStore(t)
	for _, name := range []string{
		"notes.txt", "12.sst", "000012.sst.bak", "MANIFEST-12", "MANIFEST-", "current", "0000012.wal", "-00012.wal", "000012.WAL",
		"18446744073709551615.wal", "18446744073709551615.sst", "MANIFEST-18446744073709551615", "18446744073709551616.sst",
		"1152921504606846977.wal", "9223372036854775807.wal", "9223372036854775808.wal",
		"12.flt", "000012.flt.bak", "000012.FLT", "18446744073709551615.flt", "999999.flt", "000000.flt",
		"999999.wal", "999999.sst", "MANIFEST-999999", "999999.tmp", "000000.wal", "000000.sst", "MANIFEST-000000",
	} {
		for what, data := range map[string]string{"nothing": "", "zeros": zeros, "garbage": garbage} {
			mem := store.Crash(keepEverything)
			if err := writeFile(mem, filepath.Join("db", name), []byte(data)); err != nil {
				t.Fatal(err)
			}
			opened := false
			for i := range 3 {
				db, err := Open("db", &Options{FS: mem})
				if opened = err == nil; !opened {
					var damage *CorruptionError
					if !errors.As(err, &damage) || damage.File != name {
						t.Errorf("%s with %s: Open: %v, want a CorruptionError of it", name, what, err)
					}
					break
				}
				if n := db.tree.PeekFileNum(); n < 5 || n > 1_000_100 {
					t.Errorf("%s with %s: the next file has number %d", name, what, n)
				}
				for _, key := range []string{"k000", "k019", "k020", "k059", "k060", "k079"} {
					if v, err := db.Get([]byte(key)); err != nil || len(v) != 200 {
						t.Errorf("%s with %s: Get(%q): %d bytes, %v", name, what, key, len(v), err)
					}
				}
				mustPut(t, db, "new", string(rune('0'+i)))
				mustFlush(t, db)
				wantGet(t, db, "new", string(rune('0'+i)), true)
				closeTest(t, db)
			}
			if _, _, ours := base.ParseFileName(name); !ours {
				if got := string(readAll(t, mem, filepath.Join("db", name))); got != data {
					t.Errorf("%s with %s: has %d bytes now", name, what, len(got))
				}
			} else if _, err := mem.Stat(filepath.Join("db", name)); opened && err == nil {
				t.Errorf("%s with %s: Open has not removed it", name, what)
			}
		}
	}
}

// A store leaves no descriptor, no goroutine and no memory outside of the heap after Close,
// and Open leaves none when it fails.
func TestLeaks_OpenAndClose(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	dir := t.TempDir()
	for i := range 15 {
		opts := small()
		db, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, 100*i, i)
		if _, err := Open(dir, opts); err == nil {
			t.Fatal("a second Open succeeded")
		}
		ro, err := Open(dir, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range []*DB{ro, db} {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

package process

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// A place where there can be no store, and what Open says to it.
type badPlace struct {
	name string
	make func(t *testing.T, path string) // nil: nothing is there
	ro   error                           // of a read-only Open; nil: any
}

// badPlaces are the same on all systems.
var badPlaces = []badPlace{
	{name: "file", make: makeFile},
	{name: filepath.Join("parent", "db"), make: func(t *testing.T, path string) { makeFile(t, filepath.Dir(path)) }},
	{name: "dangling", make: func(t *testing.T, path string) { makeLink(t, "nowhere", path) }, ro: fs.ErrNotExist},
	{name: "loop", make: func(t *testing.T, path string) { makeLink(t, "loop", path) }},
	{name: "nul\x00db"},
	{name: strings.Repeat("long", 100)},
	{name: filepath.Join("none", "db"), make: func(t *testing.T, path string) { makeLink(t, "nowhere", filepath.Dir(path)) }, ro: fs.ErrNotExist},
}

func makeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func makeLink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
}

// Where there can be no store, Open says so and leaves everything as it is.
func TestPlaces_NoStore(t *testing.T) {
	for i, p := range badPlaces {
		t.Run(fmt.Sprintf("%.20q", p.name), func(t *testing.T) {
			testenv.CheckLeaks(t)
			dir := t.TempDir()
			path := filepath.Join(dir, p.name)
			if p.make != nil {
				p.make(t, path)
			}
			before := testenv.FileTree(t, dir)
			for _, ro := range []bool{false, true} {
				if ro && p.ro == nil && i > 0 {
					continue // it looks again ten times, in case a writer is at work
				}
				db, err := shale.Open(path, &shale.Options{ReadOnly: ro})
				if err == nil {
					harness.WantClose(t, db)
					t.Fatalf("Open (read-only: %v) succeeded", ro)
				}
				var want error
				if ro {
					want = p.ro
				}
				if want != nil && !errors.Is(err, want) || errors.As(err, new(*shale.CorruptionError)) || errors.Is(err, shale.ErrLocked) {
					t.Errorf("Open (read-only: %v): %v, want %v", ro, err, want)
				}
				if !strings.Contains(err.Error(), "shale: open ") {
					t.Errorf("Open (read-only: %v): %v does not say what was attempted", ro, err)
				}
			}
			if after := testenv.FileTree(t, dir); !maps.Equal(after, before) {
				t.Errorf("there is %q now, was %q", after, before)
			}
		})
	}
	t.Chdir(t.TempDir()) // should the empty name lead somewhere after all
	if db, err := shale.Open("", nil); err == nil {
		_ = db.Close() // the test has failed
		t.Error("Open without a directory succeeded")
	}
}

// Names on disk can't lead out of the store's directory: CURRENT, with a
// checksum that fits, names files elsewhere, and none is opened.
func TestPlaces_NamesLeadNowhere(t *testing.T) {
	dir, options := testenv.QuickDir(t), harness.NewDrawer(t)
	for _, name := range []string{"db", "other"} {
		if err := harness.NewStream("a", 1, 120).Leave(filepath.Join(dir, name), *options.Next(), 100, true); err != nil {
			t.Fatal(err)
		}
	}
	current := filepath.Join(dir, "db", "CURRENT")
	good, err := os.ReadFile(current)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(good)) // shale version name length crc
	elsewhere := filepath.Join(dir, "other", fields[2])
	for i, name := range []string{
		filepath.Join("..", "other", fields[2]), "../other/" + fields[2], elsewhere, "./" + fields[2], "../db/" + fields[2],
		fields[2] + "\x00", "\x00" + fields[2], fields[2] + "/", "..", ".", "CURRENT", "LOCK", "/dev/zero", "MANIFEST-..", "MANIFEST-00000/",
	} {
		line := fmt.Sprintf("%s %s %s %s", fields[0], fields[1], name, fields[3])
		line = fmt.Sprintf("%s %08x\n", line, crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)))
		if err := os.WriteFile(current, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		before := testenv.FileTree(t, dir)
		for _, ro := range []bool{false, true} {
			if ro && i > 0 {
				continue
			}
			opts := options.Next()
			opts.ReadOnly = ro
			db, err := shale.Open(filepath.Join(dir, "db"), opts)
			var damage *shale.CorruptionError
			if !errors.As(err, &damage) || damage.File != "CURRENT" {
				t.Errorf("CURRENT names %q: Open (read-only: %v): %v, want a CorruptionError of CURRENT", name, ro, err)
			}
			if err == nil {
				_ = db.Close() // the test has failed
			}
		}
		if after := testenv.FileTree(t, dir); !maps.Equal(after, before) {
			t.Errorf("CURRENT names %q: Open has changed something", name)
		}
	}
	if err := os.WriteFile(current, good, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := shale.Open(filepath.Join(dir, "db"), options.Next())
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.NewStream("a", 1, 120).Check(db, 100, 100); err != nil {
		t.Error(err)
	}
	harness.WantClose(t, db)
}

// Unusual names of directories are names like any others.
func TestPlaces_UnusualNames(t *testing.T) {
	testenv.CheckLeaks(t)
	dir, options := testenv.QuickDir(t), harness.NewDrawer(t)
	want := harness.StateOf([]harness.Entry{{Key: "k", Value: "v"}})
	for _, name := range []string{
		"with a space", "line\nbreak", "ünïcödé", "\xff\xfe", "-rf", "*", "%s", "CURRENT", "000001.sst", strings.Repeat("n", 200), ".hidden",
		"a/b/c/d", "deep/../deeper/./db",
	} {
		path := filepath.FromSlash(dir + "/" + name)
		db, err := shale.Open(path, options.Next())
		if err != nil {
			if os.MkdirAll(path, 0o755) != nil {
				t.Logf("%q can't be the name of a directory here", name)
				continue
			}
			t.Errorf("%q: Open: %v", name, err)
			continue
		}
		if err := db.Put([]byte("k"), []byte("v")); err != nil {
			t.Errorf("%q: Put: %v", name, err)
		}
		harness.WantClose(t, db)
		opts := options.Next()
		opts.Exist = shale.MustExist
		if db, err = shale.Open(path, opts); err != nil {
			t.Errorf("%q: Open: %v", name, err)
			continue
		}
		found, err := harness.Read(db)
		if err == nil {
			err = want.Diff(found)
		}
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
		harness.WantClose(t, db)
	}
}

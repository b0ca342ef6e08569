package fault

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// A store on a file system that is mounted for reading only can be read, also
// one that was not closed, and is left as it is by those who want to write.
func TestReadOnlyMount(t *testing.T) {
	testenv.CheckLeaks(t)
	disk := mountTmpfs(t, 16)
	options := harness.NewDrawer(t)
	for _, closed := range []bool{true, false} {
		s := harness.NewStream("a", options.Seed, 120)
		if err := s.Leave(disk.path("db"), *options.Next(), 300, closed); err != nil {
			t.Fatal(err)
		}
		disk.remount(syscall.MS_RDONLY)
		before := testenv.FileTree(t, disk.dir)
		for _, name := range []string{"db", "new", filepath.Join("db", "sub")} {
			db, err := shale.Open(disk.path(name), options.Next())
			if err == nil {
				_ = db.Close() // the test has failed
			}
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("Open of %s for writing: %v, want EROFS", name, err)
			}
		}
		opts := options.Next()
		opts.ReadOnly = true
		db, err := shale.Open(disk.path("db"), opts)
		if err != nil {
			t.Fatalf("Open read-only: %v", err)
		}
		if err := s.Check(db, 300, 300); err != nil {
			t.Error(err)
		}
		if err := db.Put([]byte("k"), nil); !errors.Is(err, shale.ErrReadOnly) {
			t.Errorf("Put: %v, want ErrReadOnly", err)
		}
		harness.WantClose(t, db)
		if after := testenv.FileTree(t, disk.dir); !maps.Equal(after, before) {
			t.Error("something has changed")
		}
		disk.remount(0)
		if db, err = shale.Open(disk.path("db"), options.Next()); err != nil {
			t.Fatalf("Open for writing, with the mount: %v", err)
		}
		if err := db.Put([]byte("k"), []byte("v")); err != nil {
			t.Error(err)
		}
		harness.WantClose(t, db)
		if err := os.RemoveAll(disk.path("db")); err != nil {
			t.Fatal(err)
		}
	}
}

const unprivilegedDir = "SHALE_UNPRIVILEGED_DIR" // tells a test binary to be the child, and where the stores are

// Without the permissions that it needs Open says so and leaves all as it is.
// Those to read are enough for reading.
func TestPermissions(t *testing.T) {
	dir, options := testenv.QuickDir(t), harness.NewDrawer(t)
	chmod := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(".", 0o755)
	for _, name := range []string{"unwritable", "secret", "table", "lock"} {
		opts := options.Next()
		opts.MemtableSize = 16 << 10 // there are to be tables
		if err := harness.NewStream("a", 1, 120).Leave(filepath.Join(dir, name), *opts, 300, true); err != nil {
			t.Fatal(err)
		}
		chmod(name, 0o777)
		files, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			chmod(filepath.Join(name, f.Name()), 0o666)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "table", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %q, %v", tables, err)
	}
	before := treeButLocks(t, dir)
	chmod(filepath.Join("table", filepath.Base(tables[0])), 0)
	chmod(filepath.Join("lock", "LOCK"), 0o444)
	chmod("unwritable", 0o555)
	chmod("secret", 0)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPermissions_Child$", "-test.v") // its path may be closed to others
	cmd.Env = append(os.Environ(), unprivilegedDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the child: %v:\n%s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("the child: %s", out)
	}
	for _, name := range []string{"unwritable", "secret", filepath.Join("table", filepath.Base(tables[0]))} {
		chmod(name, 0o755)
	}
	if after := treeButLocks(t, dir); !maps.Equal(after, before) {
		t.Error("something has changed")
	}
}

// treeButLocks is tree without the lock files, which an Open that fails later
// may have claimed.
func treeButLocks(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := testenv.FileTree(t, dir)
	maps.DeleteFunc(found, func(path, _ string) bool { return filepath.Base(path) == "LOCK" })
	return found
}

// TestPermissions_Child is not a test: TestPermissions runs it in a process of
// its own, which gives up what root may do.
func TestPermissions_Child(t *testing.T) {
	dir := os.Getenv(unprivilegedDir)
	if dir == "" {
		t.Skip("only for TestPermissions")
	}
	if os.Getuid() == 0 {
		const nobody = 65534
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			t.Skipf("root can't be left: %v", err)
		}
	}
	testenv.CheckLeaks(t)
	options := harness.NewDrawer(t)
	for name, readable := range map[string]bool{"unwritable": true, "lock": true, "secret": false, "table": false} {
		for _, ro := range []bool{true, false} {
			opts := options.Next()
			opts.ReadOnly = ro
			db, err := shale.Open(filepath.Join(dir, name), opts)
			if !ro || !readable {
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s: Open (read-only: %v): %v, want %v", name, ro, err, fs.ErrPermission)
				}
				if err == nil {
					_ = db.Close() // the test has failed
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: Open read-only: %v", name, err)
				continue
			}
			if err := harness.NewStream("a", 1, 120).Check(db, 300, 300); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			harness.WantClose(t, db)
		}
	}
}

package repair

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// storeOnDisk makes a store of some tables in the folder db of a new working
// directory, which it returns.
func storeOnDisk(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	t.Chdir(root)
	db, err := shale.Open("db", &shale.Options{Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b", "c"} {
		if err := errors.Join(db.Put([]byte(k), []byte("value")), db.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

// A folder inside the store is refused, under any name.
func TestRun_RefusesLinksIntoTheStore(t *testing.T) {
	storeOnDisk(t)
	if err := os.Symlink("db", "link"); err != nil {
		t.Skip(err)
	}
	for _, c := range [][2]string{{"db", "link/new"}, {"link", "db/new"}, {"link", "link"}} {
		if _, err := Run(t.Context(), c[0], c[1], nil); err == nil || errors.Is(err, fs.ErrExist) {
			t.Errorf("Run(%q, %q) = %v, want a refusal", c[0], c[1], err)
		}
	}
	if _, err := os.Stat("db/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("db/new: %v, want none", err)
	}
}

// Check and Run work on the folders that their names meant when the call began.
func TestRelativePathAndChdir(t *testing.T) {
	root := storeOnDisk(t)
	other := t.TempDir()
	// leave is a file system in which the program changes its working directory
	// when a table is first read.
	leave := func() *Options {
		t.Chdir(root)
		once := sync.OnceFunc(func() { t.Chdir(other) })
		return &Options{FS: faultfs.New(vfs.Default, func(op vfs.Op, name string, _ int64) error {
			if op == vfs.OpRead && filepath.Ext(name) == ".sst" {
				once()
			}
			return nil
		})}
	}
	if r, err := Check(t.Context(), "db", leave()); err != nil || r.Damaged() || r.Read.Tables != 3 {
		t.Errorf("Check: %+v, %v; want three whole tables", r, err)
	}
	if r, err := Run(t.Context(), "db", "new", leave()); err != nil || r.Keys != 3 {
		t.Errorf("Run: %+v, %v; want three keys", r, err)
	}
	if names, _ := os.ReadDir(other); len(names) > 0 {
		t.Errorf("the later working directory has %v", names)
	}
	db, err := shale.Open(filepath.Join(root, "new"), &shale.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if v, err := db.Get([]byte("b")); string(v) != "value" || err != nil {
		t.Errorf("Get = %q, %v", v, err)
	}
}

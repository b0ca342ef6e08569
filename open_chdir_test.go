package shale

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A store that was opened by a relative path stays where it is when the program changes its
// working directory, even if the same path leads to another store afterwards. Neither of the
// two loses anything.
func TestOpen_RelativePathAndChdir(t *testing.T) {
	root := t.TempDir()
	there := filepath.Join(root, "b", "db")
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, fsys := range map[string]vfs.FS{"default": nil, "fault": faultfs.New(vfs.Default, nil)} {
		opts := small()
		opts.FS, opts.Tuning.MaxOpenFiles = fsys, 16
		other, err := Open(there, opts)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, other, 300, 0)
		t.Chdir(filepath.Join(root, "a"))
		db, err := Open("db", opts)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, 300, 1)
		t.Chdir(filepath.Join(root, "b"))
		fill(t, db, 300, 2)
		mustFlush(t, db)
		if err := db.Compact(t.Context(), Range{}); err != nil {
			t.Error(err)
		}
		closeTest(t, db)
		closeTest(t, other)
		for dir, round := range map[string]int{filepath.Join(root, "a", "db"): 2, there: 0} {
			db, err := Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 300 {
				wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round %d", i, round), true)
			}
			closeTest(t, db)
		}
	}
}

// A read-only store opens its tables when it needs them, and finds them after the program
// has changed its working directory. The lock still refuses a second handle that writes.
func TestOpen_RelativePathReadOnlyAndChdir(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	opts := small()
	db, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, db)
	fill(t, db, 300, 0)
	mustFlush(t, db)
	opts.ReadOnly = true
	ro, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	t.Chdir(t.TempDir())
	for i := range 300 {
		wantGet(t, ro, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
	}
	if err := ro.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	opts.ReadOnly = false
	if _, err := Open(filepath.Join(root, "db"), opts); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
}

// The program changes its working directory while Open waits for the lock. Open opens the
// store that its path led to at first.
func TestOpen_ChdirWhileItWaits(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	first, err := Open("db", nil)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, 1000)
	fsys := faultfs.New(vfs.Default, func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpLock {
			waits <- struct{}{}
		}
		return nil
	})
	opened := make(chan error)
	var db *DB
	go func() {
		var err error
		db, err = Open("db", &Options{FS: fsys, LockTimeout: time.Minute})
		opened <- err
	}()
	<-waits
	other := t.TempDir()
	t.Chdir(other)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k", "v")
	closeTest(t, db)
	if names, _ := os.ReadDir(other); len(names) > 0 {
		t.Errorf("Open made %v in the later working directory", names)
	}
	again, err := Open(filepath.Join(root, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, again)
	wantGet(t, again, "k", "v", true)
}

// A link that leads to the directory is switched while the store is open. The writer goes on where it
// was, and a reader learns that another store is there.
func TestOpen_LinkSwitched(t *testing.T) {
	top := t.TempDir()
	link := filepath.Join(top, "current")
	switchTo := func(name string) {
		t.Helper()
		if err := os.Symlink(name, link+".new"); err != nil {
			t.Skip(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	opts := &Options{Durability: SyncEach, MemtableSize: 4096, OnEvent: func(Event) {}}
	other, err := Open(filepath.Join(top, "v2"), opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, other, "other", "value")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(top, "v1"), 0o755); err != nil {
		t.Fatal(err)
	}
	switchTo("v1")
	db, err := Open(link, opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "key000", "value")
	reader, err := Open(link, &Options{ReadOnly: true, OnEvent: func(Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	switchTo("v2")
	for i := 1; i < 400; i++ {
		mustPut(t, db, fmt.Sprintf("key%03d", i), "value")
	}
	if _, err := reader.Advance(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("Advance = %v, want ErrReplaced", err)
	}
	if err := errors.Join(reader.Close(), db.Close()); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{"v1": 400, "v2": 1} {
		db, err := Open(filepath.Join(top, name), opts)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range db.Scan(Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := db.Verify(t.Context()); n != want || err != nil {
			t.Errorf("%s has %d keys, want %d; %v", name, n, want, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

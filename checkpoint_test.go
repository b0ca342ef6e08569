package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// noLinks fails hard links, so that a checkpoint copies the files.
func noLinks(op vfs.Op) error {
	if op == vfs.OpLink {
		return syscall.EXDEV
	}
	return nil
}

// checkpointed opens a store with a table and entries in a log only, on a file system whose
// operations the test can make fail. wantWhole knows its entries.
func checkpointed(t *testing.T) (*DB, *faultfs.FS, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem()
	fault := faultfs.New(mem, nil)
	opts := small()
	opts.FS, opts.CompactionWorkers = fault, -1
	db := openTest(t, opts)
	fill(t, db, 300, 0)
	mustFlush(t, db)
	fill(t, db, 50, 1)
	return db, fault, mem
}

// A checkpoint may fail at each of its operations, once or for good, with links or with
// copies. It leaves nothing, and the next checkpoint works. If it can't remove its files
// either, what is left opens as the whole store or not at all.
func TestCheckpoint_FailureLeavesNothing(t *testing.T) {
	testenv.SkipRace(t)
	needRoom := []vfs.Op{vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpLock, vfs.OpWrite, vfs.OpPreallocate, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename}
	for _, kind := range []struct {
		name    string
		copies  bool
		forGood bool // all later operations fail too
		full    bool // only operations that may need room fail
		after   bool // the operation takes place, and returns an error nevertheless
	}{
		{"once", false, false, false, false},
		{"once, copies", true, false, false, false},
		{"once, done all the same", false, false, false, true},
		{"once, copies, done all the same", true, false, false, true},
		{"full disk", false, true, true, false},
		{"full disk, copies", true, true, true, false},
		{"dead disk", false, true, false, false},
		{"dead disk, copies", true, true, false, false},
	} {
		db, fault, mem := checkpointed(t)
		failures := 0
		for k := int64(1); ; k++ {
			var mu sync.Mutex // the manifest and the temporary file of CURRENT are written at the same time
			n, failed := int64(0), false
			fault.Inject(func(op vfs.Op, name string, _ int64) error {
				mu.Lock()
				defer mu.Unlock()
				if kind.copies && op == vfs.OpLink {
					return syscall.EXDEV
				}
				if !strings.HasPrefix(name, "copy") && name != "." {
					return nil
				}
				if kind.full && !slices.Contains(needRoom, op) || op == vfs.OpClose || op == vfs.OpUnlock {
					return nil
				}
				if n++; n != k && !(kind.forGood && failed) {
					return nil
				}
				failed = true
				return &faultfs.Fault{Err: syscall.ENOSPC, After: kind.after, Short: true}
			})
			err := db.Checkpoint("copy")
			fault.Inject(nil)
			if !failed {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			failures++
			_, gone := mem.Stat("copy")
			switch {
			case err == nil: // some failures do not matter to a checkpoint
			case !errors.Is(err, syscall.ENOSPC):
				t.Errorf("%s, operation %d: %v, want ENOSPC", kind.name, k, err)
			case kind.forGood && !kind.full: // Remove fails too
				opensWholeOrNot(t, mem)
			case !errors.Is(gone, fs.ErrNotExist):
				names, _ := mem.List("copy")
				t.Errorf("%s, operation %d: left %q", kind.name, k, names)
			}
			if gone == nil && (err == nil || kind.forGood && !kind.full) {
				removeDir(t, mem, "copy")
			}
			if err := db.Checkpoint("copy"); err != nil {
				t.Fatalf("%s, after operation %d: %v", kind.name, k, err)
			}
			wantWhole(t, mem)
			removeDir(t, mem, "copy")
		}
		t.Logf("%s: %d operations", kind.name, failures)
		if failures < 10 {
			t.Errorf("%s: want more operations", kind.name)
		}
		removeDir(t, mem, "copy")
	}
}

// opensWholeOrNot opens what a failed checkpoint has left. If that works, all entries must
// be there.
func opensWholeOrNot(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	db, err := Open("copy", &Options{FS: mem, Exist: MustExist, ReadOnly: true})
	if err != nil {
		return
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	wantWhole(t, mem)
}

// wantWhole opens the checkpoint and checks that it has all entries of checkpointed.
func wantWhole(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	db, err := Open("copy", &Options{FS: mem, Exist: MustExist, ReadOnly: true})
	if err != nil {
		t.Error(err)
		return
	}
	defer closeTest(t, db)
	for i := range 300 {
		round := 0
		if i < 50 {
			round = 1
		}
		wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round %d", i, round), true)
	}
}

// Two checkpoints are made into one directory at the same time. The first succeeds. The
// second returns ErrExist and changes nothing, whether it comes to the directory while the
// first makes its files, or later, when they are complete.
func TestCheckpoint_TwoAtOnce(t *testing.T) {
	for _, copies := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			db, fault, mem := checkpointed(t)
			looked, goOn := make(chan struct{}), make(chan struct{})
			var second error
			var done sync.WaitGroup
			made, linked := 0, 0 // directories and files
			var mu sync.Mutex
			count := func(n *int) int {
				mu.Lock()
				defer mu.Unlock()
				*n++
				return *n
			}
			fault.Inject(func(op vfs.Op, name string, _ int64) error {
				switch {
				case op == vfs.OpMkdirAll && count(&made) == 1: // the first checkpoint has found no directory
					done.Go(func() { second = db.Checkpoint("copy") })
					<-looked
				case op == vfs.OpMkdirAll: // the second has found none either
					close(looked)
					<-goOn
				case op == vfs.OpLink && count(&linked) == 1 && !late:
					close(goOn)
					done.Wait()
				}
				if copies {
					return noLinks(op)
				}
				return nil
			})
			first := db.Checkpoint("copy")
			if late {
				close(goOn)
				done.Wait()
			}
			if first != nil || !errors.Is(second, fs.ErrExist) {
				t.Errorf("copies %v, late %v: %v and %v, want nil and ErrExist", copies, late, first, second)
			}
			wantWhole(t, mem)
		}
	}
}

// A checkpoint that is not complete can't be opened: while it is made it is locked, and
// after a crash in the middle of it Open fails.
func TestCheckpoint_IncompleteDoesNotOpen(t *testing.T) {
	db, fault, mem := checkpointed(t)
	var mu sync.Mutex // as in TestCheckpoint_FailureLeavesNothing
	complete, tried := false, 0
	fault.Inject(func(op vfs.Op, name string, _ int64) error {
		if !strings.HasPrefix(filepath.ToSlash(name), "copy/") || op == vfs.OpLock || op == vfs.OpUnlock {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		complete = complete || op == vfs.OpRename // of CURRENT: later operations make that durable
		if complete {
			return nil
		}
		tried++
		if cp, err := Open("copy", &Options{FS: mem}); !errors.Is(err, ErrLocked) {
			t.Errorf("Open before %v %s: %v, want ErrLocked", op, name, err)
			if err == nil {
				cp.Close()
			}
		}
		crashed := mem.Crash(vfs.CrashConfig{Names: vfs.NamesKeep})
		if names, _ := crashed.List("copy"); len(names) < 2 {
			return nil // the directory has only the lock
		}
		if cp, err := Open("copy", &Options{FS: crashed}); err == nil {
			t.Errorf("Open after a crash before %v %s: no error", op, name)
			cp.Close()
		}
		return nil
	})
	if err := db.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	if tried < 5 || !complete {
		t.Errorf("%d operations were looked at, want more", tried)
	}
}

// A checkpoint into the store's own directory is refused, whichever path leads there, and
// the store opens again afterwards.
func TestCheckpoint_InsideTheStore(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	if err := os.Mkdir("other", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("db", "link"); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("..", filepath.Join("other", "up")); err != nil {
		t.Skip(err)
	}
	for _, dir := range []string{"db", "link"} {
		db, err := Open(dir, small())
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "k", "v")
		for _, name := range []string{
			"db/sub", "db/000003.tmp", "./db/999999.wal", "other/../db/sub", filepath.Join(root, "db", "a", "b"),
			"link/000003.tmp", "other/up/db/sub", "other/up/link/sub",
		} {
			if err := db.Checkpoint(name); err == nil || errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "inside") {
				t.Errorf("Checkpoint(%q) = %v, want a refusal", name, err)
			}
		}
		for _, name := range []string{"db", ""} {
			if err := db.Checkpoint(name); err == nil {
				t.Errorf("Checkpoint(%q): no error", name)
			}
		}
		closeTest(t, db)
		if db, err = Open("db", small()); err != nil {
			t.Fatalf("the store does not open again: %v", err)
		}
		for _, name := range []string{"db2", "other/up/copy", "db/../third"} {
			if err := db.Checkpoint(name); err != nil {
				t.Errorf("Checkpoint(%q): %v", name, err)
			}
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
		wantGet(t, db, "k", "v", true)
		closeTest(t, db)
	}
	mem := small()
	mem.FS = vfs.NewMem()
	db := openTest(t, mem)
	for _, name := range []string{"db/sub", "/db/sub", "x/../db/sub"} {
		if err := db.Checkpoint(name); err == nil {
			t.Errorf("in memory: Checkpoint(%q): no error", name)
		}
	}
}

// The relative path of a checkpoint means what it meant when the call began, even if the
// program changes its working directory meanwhile.
func TestCheckpoint_RelativePathAndChdir(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	t.Chdir(root)
	opts := small()
	moved := false
	opts.FS = faultfs.New(vfs.Default, func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpLink && !moved {
			moved = true
			t.Chdir(other)
		}
		return nil
	})
	db := openTest(t, opts)
	fill(t, db, 300, 0)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint("copy"); err != nil {
		t.Errorf("Checkpoint: %v", err)
	}
	if !moved {
		t.Error("no table was linked")
	}
	opts.FS, opts.Exist = nil, MustExist
	cp, err := Open(filepath.Join(root, "copy"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, cp)
	wantGet(t, cp, "key000007", "value 7 of round 0", true)
	if names, _ := os.ReadDir(other); len(names) > 0 {
		t.Errorf("Checkpoint made %v in the later working directory", names)
	}
}

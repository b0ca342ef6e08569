package shale

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// allFiles lists the directories below dir, and the files with their sizes.
func allFiles(t *testing.T, fsys vfs.FS, dir string) (all []string) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = dir + "/" + name
		info, err := fsys.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir {
			all = append(append(all, name), allFiles(t, fsys, name)...)
		} else {
			all = append(all, fmt.Sprint(name, " ", info.Size))
		}
	}
	return all
}

// An Open that is to make a store may fail at each of its operations. Then it leaves no part
// of a store and no directory, and removes nothing that was there before. After a crash at
// any moment a store can be made in the same place.
func TestOpen_FailureLeavesNothingBehind(t *testing.T) {
	testenv.SkipRace(t)
	for _, stranger := range [][]string{
		nil,
		{"a/notes.txt"},
		{"a/b/db/notes.txt", "a/b/db/LOCK", "a/b/db/MANIFEST-000001", "a/b/db/MANIFEST-000009", "a/b/db/000009.tmp", "a/b/db/wal.old"},
	} {
		for _, after := range []bool{false, true} {
			for k, met := int64(1), true; met; k++ {
				met = failToOpen(t, stranger, k, after)
				if t.Failed() {
					t.Fatalf("among %q, operation %d fails, after it happened: %v", stranger, k, after)
				}
			}
		}
	}
}

// failToOpen fails operation k of Open and reports whether Open has that many operations.
func failToOpen(t *testing.T, strangers []string, k int64, after bool) (met bool) {
	mem := vfs.NewMem()
	for _, name := range strangers {
		dir := name[:strings.LastIndexByte(name, '/')]
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		f, err := mem.Create(name)
		if err == nil {
			_, err = f.Write([]byte("stranger"))
		}
		if err = errors.Join(err, f.Sync(), f.Close(), mem.SyncDir(dir)); err != nil {
			t.Fatal(err)
		}
	}
	before := allFiles(t, mem, ".")
	opts := tinyStore(nil)
	fault := faultfs.FailAt(k, &faultfs.Fault{Err: syscall.EIO, After: after})
	var mu sync.Mutex
	ops := 0
	var crashed []*vfs.Mem
	faults := faultfs.New(mem, func(op vfs.Op, name string, n int64) error {
		mu.Lock()
		defer mu.Unlock()
		if ops++; met && len(strangers) == 0 {
			configs := vfs.CrashConfigs(uint64(k))
			crashed = append(crashed, mem.Crash(configs[ops%len(configs)]), mem.Crash(configs[(3*ops+1)%len(configs)]))
		}
		err := fault(op, name, n)
		met = met || err != nil
		return err
	})
	opts.FS = faults
	db, err := Open("a/b/db", &opts)
	faults.Inject(nil)
	if err == nil {
		closeTest(t, db)
		return met
	}
	if !met {
		t.Fatal(err)
	}
	opts.FS = mem
	wantNoOpenFiles(t, mem)
	// If an operation takes place and returns an error, Open can't know what to remove.
	if now := allFiles(t, mem, "."); !after && !slices.Equal(withoutOwn(now), withoutOwn(before)) {
		t.Errorf("after Open = %v there is %q, was %q", err, now, before)
	} else if missing := slices.DeleteFunc(withoutOwn(before), func(s string) bool { return slices.Contains(now, s) }); len(missing) > 0 {
		t.Errorf("after Open = %v %q are gone or changed", err, missing)
	}
	ro := opts
	ro.ReadOnly = true
	if _, err := Open("a/b/db", &ro); !after && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open read-only after a failed Open = %v, want that there is no store", err)
	}
	for _, m := range append(crashed, mem) {
		opts.FS = m
		db, err := Open("a/b/db", &opts)
		if err != nil {
			t.Fatalf("Open after a failed Open: %v", err)
		}
		mustPut(t, db, "k", "v")
		closeTest(t, db)
	}
	return true
}

// withoutOwn returns the files but for those that the next Open overwrites: the lock, and
// what an earlier attempt to make a store has left.
func withoutOwn(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		return strings.Contains(name, "/LOCK ") && len(files) > 5 || strings.Contains(name, "/MANIFEST-000001 ")
	})
}

// A store on a full disk fails to open many times. Its manifests do not become more.
func TestOpen_FullDiskKeepsOneManifest(t *testing.T) {
	mem := vfs.NewMem()
	faults := faultfs.New(mem, nil)
	opts := tinyStore(faults)
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k", "v")
	closeTest(t, db)
	before := allFiles(t, mem, "db")
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		return errorIf(op == vfs.OpPreallocate || op == vfs.OpWrite && strings.HasSuffix(name, ".wal"), syscall.ENOSPC)
	})
	for range 12 {
		if _, err := Open("db", &opts); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Open = %v", err)
		}
	}
	if now := allFiles(t, mem, "db"); len(now) != len(before) {
		t.Errorf("after twelve failed Opens there is %q, was %q", now, before)
	}
	faults.Inject(nil)
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k", "v", true)
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	manifests := 0
	for _, name := range names {
		if typ, _, ok := base.ParseFileName(name); ok && typ == base.FileManifest {
			manifests++
		}
	}
	if manifests != 1 {
		t.Errorf("files are %q, want one manifest", names)
	}
	closeTest(t, db)
}

// While a store is opened a write to its manifest fails, so that Open begins another one.
// That fails as well, at a moment when CURRENT may already name the new manifest. So neither
// of the two is a leftover that may be removed.
func TestOpen_KeepsTheManifestThatCurrentMayName(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k", "v")
	closeTest(t, db)
	var manifests, renamed int
	opts.FS = faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
		isManifest := strings.Contains(name, "MANIFEST")
		switch {
		case op == vfs.OpCreate && isManifest:
			manifests++
		case op == vfs.OpRename && strings.HasSuffix(name, "CURRENT"):
			renamed++
		case op == vfs.OpWrite && isManifest && renamed == 1 && manifests == 1:
			return syscall.EIO // the edit that records the new log
		case op == vfs.OpSyncDir && renamed == 2:
			renamed++
			return syscall.EIO // the rename has happened, but Open can't rely on it
		}
		return nil
	})
	db, err = Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	if manifests != 2 || renamed != 3 {
		t.Fatalf("%d manifests were made, want 2", manifests)
	}
	die := func() {
		db.life.Cancel()
		db.life.Background.Wait()
		db.abandon()
	}
	die()
	opts.FS = mem
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k", "v", true)
	closeTest(t, db)
}

// Leftovers that can't be removed stay, and Open says so. All others go.
func TestOpen_RemovesOtherLeftovers(t *testing.T) {
	mem := vfs.NewMem()
	closeTest(t, mustOpen(t, "db", &Options{FS: mem}))
	const n = 9
	for i := range n {
		f, err := mem.Create(fmt.Sprintf("db/%06d.sst", 1000+i))
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stays := map[string]error{"001000.sst": syscall.EPERM, "001003.sst": syscall.EACCES}
	var told []error
	failing := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpRemove {
			return stays[filepath.Base(name)]
		}
		return nil
	})
	db := mustOpen(t, "db", &Options{FS: failing, OnEvent: func(e Event) {
		if e.Kind == EventBackgroundError {
			told = append(told, e.Err)
		}
	}})
	if len(told) != 1 || !errors.Is(told[0], syscall.EPERM) {
		t.Errorf("Open tells of %v, want the first error", told)
	}
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "00100") })
	if want := slices.Sorted(maps.Keys(stays)); !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q", left, want)
	}
	closeTest(t, db)
}

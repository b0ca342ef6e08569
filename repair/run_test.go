package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// What is no damage is an error, and leaves nothing behind.
func TestRun_Refuses(t *testing.T) {
	b := build(t, "closed", testenv.Seed(t))
	mem := b.mem
	run := func(dir, into string) error {
		_, err := Run(t.Context(), dir, into, &Options{FS: mem})
		return err
	}
	b.must(mem.MkdirAll("full/of/things"))
	for _, tt := range []struct {
		dir, into string
		want      error
		text      string
	}{
		{"db", "db", nil, "inside"},
		{"db", "db/x", nil, "inside"},
		{"db", "./y/../db/x", nil, "inside"},
		{"db", "full", fs.ErrExist, "full"},
		{"db", "db/LOCK/..", nil, "inside"},
		{"db", "db.new/../full", fs.ErrExist, ""},
		{"none", "new", fs.ErrNotExist, ""},
		{"full", "new", fs.ErrNotExist, ""},
	} {
		err := run(tt.dir, tt.into)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("Run(%q, %q) = %v, want %v %s", tt.dir, tt.into, err, tt.want, tt.text)
		}
	}
	if names, err := mem.List("/"); err != nil || len(names) != 2 {
		t.Errorf("there is %q, %v; want db and full", names, err)
	}
	db, err := shale.Open("db", &b.opts)
	b.must(err)
	if err := run("db", "new"); !errors.Is(err, shale.ErrLocked) {
		t.Errorf("Run beside a writer = %v, want ErrLocked", err)
	}
	b.must(db.Close())
	b.must(mem.MkdirAll("empty"))
	if err := run("db", "empty"); err != nil {
		t.Errorf("Run into an empty folder = %v", err)
	}
}

// A writer can't open the store while it is being saved.
func TestRun_KeepsWritersOut(t *testing.T) {
	b := build(t, "closed", testenv.Seed(t))
	var tried atomic.Int64
	fsys := vfs.NewFault(b.mem, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpRead && filepath.Dir(name) == "db" && strings.HasSuffix(name, ".sst") && tried.Add(1) == 1 {
			if db, err := shale.Open("db", &b.opts); !errors.Is(err, shale.ErrLocked) {
				t.Errorf("Open beside Run = %v, want ErrLocked", err)
				if err == nil {
					db.Close()
				}
			}
		}
		return nil
	})
	if _, err := Run(t.Context(), "db", "new", &Options{FS: fsys}); err != nil {
		t.Fatal(err)
	}
	if tried.Load() == 0 {
		t.Error("no table was read")
	}
	b.open()
	b.close()
}

// Each operation on the new store fails once: the error tells, nothing is left
// of it, and the old one is as before.
func TestRun_FailsWithoutATrace(t *testing.T) {
	seed := testenv.Seed(t)
	b := build(t, "crashed", seed)
	before := b.list()
	failed := 0
	for k := int64(1); ; k += 1 + int64(seed%7) {
		mem := b.mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
		var seen atomic.Int64
		fsys := vfs.NewFault(mem, func(op vfs.Op, name string, _ int64) error {
			if strings.HasPrefix(name, "new") && op != vfs.OpRemove && seen.Add(1) == k {
				return syscall.ENOSPC
			}
			return nil
		})
		_, err := Run(t.Context(), "db", "new", &Options{FS: fsys})
		if seen.Load() < k {
			break
		}
		if mem.OpenFiles() != 0 {
			t.Fatalf("operation %d failed: %d files are left open", k, mem.OpenFiles())
		}
		if !maps.Equal(listDir(t, mem, "db"), before) {
			t.Fatalf("operation %d failed: the damaged store has changed", k)
		}
		if err == nil {
			continue // it was tried again, or could be done without
		}
		failed++
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d failed: %v, want ENOSPC", k, err)
		}
		if names, err := mem.List("new"); !errors.Is(err, fs.ErrNotExist) && len(names) > 0 {
			t.Errorf("operation %d failed: new has %q", k, names)
		}
	}
	if failed < 5 {
		t.Errorf("only %d operations failed", failed)
	}
	t.Logf("seed %d: %d failures", seed, failed)
}

// The manifest of another store, with its CURRENT, names none of the files. The
// store is the one that most files are of.
func TestRun_ForeignManifest(t *testing.T) {
	seed := testenv.Seed(t)
	b, other := build(t, "small", seed), build(t, "small", seed+1)
	for name, data := range other.files {
		if name == "CURRENT" || strings.HasPrefix(name, "MANIFEST") {
			b.must(writeFile(b.mem, name, data))
		}
	}
	strict, err := Run(t.Context(), "db", "strict", &Options{FS: b.mem})
	b.must(err)
	if strict.Manifest != "" || strict.Whole() || !strings.HasPrefix(strict.Findings[0].File, "MANIFEST") {
		t.Errorf("Run = %+v, want no manifest, and why", strict)
	}
	all, err := Run(t.Context(), "db", "all", &Options{FS: b.mem, Doubtful: true})
	b.must(err)
	got, err := contents(b.mem, "all")
	b.must(err)
	if want := b.states[len(b.states)-1]; !maps.Equal(got, want) || all.Keys != uint64(len(want)) {
		t.Errorf("%d keys with the doubtful ones, want %d", len(got), len(want))
	}
	for name := range b.files {
		if strings.HasSuffix(name, ".sst") && other.files[name] != "" {
			b.must(writeFile(b.mem, name, other.files[name]))
		}
	}
	all, err = Run(t.Context(), "db", "foreign", &Options{FS: b.mem, Doubtful: true})
	if err == nil {
		got, err = contents(b.mem, "foreign")
		b.must(err)
		for k, v := range got {
			if !slices.Contains(b.versions[k], v) && !slices.Contains(other.versions[k], v) {
				t.Errorf("key %q never was %q", k, v)
			}
		}
	} else if !strings.Contains(err.Error(), "of store") {
		t.Errorf("Run of a mixture: %+v, %v", all, err)
	}
}

// A cancelled context ends Check and Run.
func TestCancel(t *testing.T) {
	b := build(t, "closed", testenv.Seed(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, "db", &Options{FS: b.mem}); !errors.Is(err, context.Canceled) {
		t.Errorf("Check = %v, want context.Canceled", err)
	}
	if _, err := Run(ctx, "db", "new", &Options{FS: b.mem}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	if _, err := b.mem.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("new is there: %v", err)
	}
}

// The device can't read a file, or all of one kind: that is damage too, and the
// error is told.
func TestUnreadable(t *testing.T) {
	shapes := []string{"many logs", "crashed", "closed"}
	if testing.Short() {
		shapes = shapes[:1]
	}
	for _, shape := range shapes {
		b := build(t, shape, testenv.Seed(t))
		for file := range b.files {
			if b.unused[file] {
				continue
			}
			for first := int64(1); first < 6; first++ {
				if first > 1 && (testing.Short() || !strings.HasSuffix(file, ".wal") && first != 3) {
					continue
				}
				d := damage{
					what: fmt.Sprintf("reads from number %d on fail", first), files: []string{file},
					apply: func(*vfs.Mem) error { return nil }, harmless: first > 1,
				}
				var n atomic.Int64
				d.inject = func(op vfs.Op, name string) error {
					if op == vfs.OpRead && name == "db/"+file && n.Add(1) >= first {
						return syscall.EIO
					}
					return nil
				}
				d.restart = func() { n.Store(0) }
				if _, err := b.try(d); err != nil {
					t.Errorf("%s: %v: %v", shape, d, err)
				}
			}
		}
	}
}

// Check beside a program that writes finds no damage, whatever that does
// meanwhile.
func TestCheck_BesideAWriter(t *testing.T) {
	b := build(t, "closed", testenv.Seed(t))
	b.opts.CompactionWorkers, b.opts.MemtableSize = 1, 8<<10
	b.open()
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() {
		for n := 0; n < 1000 && !stop.Load(); n++ { // the model keeps the state after each
			b.write(3)
		}
	})
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for i := range rounds {
		r, err := Check(t.Context(), "db", &Options{FS: b.mem})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if r.Damaged() || !r.Writer {
			t.Fatalf("round %d: writer %v, found %+v", i, r.Writer, r.Findings)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d checks beside %d commits", rounds, len(b.states))
	b.close()
	r, err := Check(t.Context(), "db", &Options{FS: b.mem})
	if err != nil || r.Damaged() || r.Writer {
		t.Errorf("after Close: %+v, %v", r, err)
	}
}

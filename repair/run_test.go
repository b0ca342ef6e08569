package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// What is not damage is an error, and leaves nothing behind.
func TestRun_Refuses(t *testing.T) {
	l := newStore(t, false)
	mem := l.Mem
	run := func(dir, into string) error {
		_, err := Run(t.Context(), dir, into, &Options{FS: mem})
		return err
	}
	must(t, mem.MkdirAll("full/of/things"))
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
	db, err := shale.Open("db", &l.Opts)
	must(t, err)
	if err := run("db", "new"); !errors.Is(err, shale.ErrLocked) {
		t.Errorf("Run beside a writer = %v, want ErrLocked", err)
	}
	must(t, db.Close())
	must(t, mem.MkdirAll("empty"))
	if err := run("db", "empty"); err != nil {
		t.Errorf("Run into an empty folder = %v", err)
	}
}

// A writer can't open the store while it is being saved.
func TestRun_KeepsWritersOut(t *testing.T) {
	l := newStore(t, false)
	var tried atomic.Int64
	fsys := faultfs.New(l.Mem, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpRead && filepath.Dir(name) == "db" && strings.HasSuffix(name, ".sst") && tried.Add(1) == 1 {
			if db, err := shale.Open("db", &l.Opts); !errors.Is(err, shale.ErrLocked) {
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
	db, err := shale.Open("db", &l.Opts)
	must(t, err)
	must(t, db.Close())
}

// Each operation on the new store fails once. Run returns the error, removes the new store,
// and leaves the old one as it was.
func TestRun_FailsWithoutATrace(t *testing.T) {
	seed := testenv.Seed(t)
	l := newStore(t, true)
	before := filesIn(t, l.Mem)
	failed := 0
	for k := int64(1); ; k += 1 + int64(seed%7) {
		mem := l.Mem.Crash(harness.KeepAll)
		var seen atomic.Int64
		fsys := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
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
		if !maps.Equal(filesIn(t, mem), before) {
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

// A cancelled context ends Check and Run.
func TestCancel(t *testing.T) {
	l := newStore(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, "db", &Options{FS: l.Mem}); !errors.Is(err, context.Canceled) {
		t.Errorf("Check = %v, want context.Canceled", err)
	}
	if _, err := Run(ctx, "db", "new", &Options{FS: l.Mem}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	if _, err := l.Mem.Stat("new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("new is there: %v", err)
	}
}

// Check finds no damage while a program writes to the store, whatever that program does.
func TestCheck_BesideAWriter(t *testing.T) {
	l := newStore(t, false)
	l.Opts.CompactionWorkers, l.Opts.MemtableSize = 1, 8<<10
	db, err := shale.Open("db", &l.Opts)
	must(t, err)
	source := harness.NewScript(testenv.Seed(t)).Source
	var stop atomic.Bool
	commits := 0
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() {
		for ; commits < 3000 && !stop.Load(); commits++ {
			if err := db.Write(context.Background(), source.Write(3).Batch()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for i := range rounds {
		r, err := Check(t.Context(), "db", &Options{FS: l.Mem})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if r.Damaged() || !r.Writer {
			t.Fatalf("round %d: writer %v, found %+v", i, r.Writer, r.Findings)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d checks beside %d commits", rounds, commits)
	must(t, db.Close())
	r, err := Check(t.Context(), "db", &Options{FS: l.Mem})
	if err != nil || r.Damaged() || r.Writer {
		t.Errorf("after Close: %+v, %v", r, err)
	}
}

// A process that can't open a file of the store, for lack of rights or of descriptors, learns
// nothing about the file: both return that error, and call nothing damaged or lost.
func TestErrorsOfThisProcess(t *testing.T) {
	l := newStore(t, false)
	db, err := shale.Open("db", &shale.Options{FS: l.Mem, Tuning: shale.Tuning{FilterHash: (l.Opts.Tuning.FilterHash + 1) % (shale.SipHash + 1)}, CompactionWorkers: -1})
	must(t, err)
	_, err = db.Inspect().RebuildFilters(t.Context())
	must(t, errors.Join(err, db.Close()))
	for _, cause := range []error{syscall.EMFILE, syscall.EACCES, syscall.ENOMEM} {
		for _, kind := range []string{".sst", ".flt"} {
			mem := l.Mem.Crash(harness.KeepAll)
			met := 0
			fsys := faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
				if op != vfs.OpOpen || !strings.HasPrefix(name, "db") || !strings.HasSuffix(name, kind) {
					return nil
				}
				met++
				return cause
			})
			_, err := Check(t.Context(), "db", &Options{FS: fsys})
			if met == 0 || !errors.Is(err, cause) {
				t.Errorf("Check with %v for %s = %v", cause, kind, err)
			}
			if kind == ".flt" {
				continue // Run reads no filters
			}
			if _, err := Run(t.Context(), "db", "new", &Options{FS: fsys}); met == 0 || !errors.Is(err, cause) {
				t.Errorf("Run with %v = %v", cause, err)
			}
			if names, err := mem.List("new"); !errors.Is(err, fs.ErrNotExist) && len(names) > 0 {
				t.Errorf("Run with %v left %q", cause, names)
			}
		}
	}
}

// Options.Read counts each byte once, whatever reads it again, so that a percentage made of it is right up to the end. Only
// LOCK is not read.
func TestOptions_ReadCountsTheStore(t *testing.T) {
	mem := vfs.NewMem()
	db, err := shale.Open("db", &shale.Options{FS: mem, Compression: shale.NoCompression})
	must(t, err)
	for i := range 3_000 {
		must(t, db.Put(fmt.Appendf(nil, "%06d", i), make([]byte, 200)))
		if i%1_000 == 800 {
			must(t, db.Flush(t.Context()))
		}
	}
	must(t, db.Close())
	want := 0
	for name, b := range filesIn(t, mem) {
		if name != "LOCK" {
			want += len(b)
		}
	}
	got := 0
	o := &Options{FS: mem, Read: func(n int) { got += n }}
	_, err = Check(t.Context(), "db", o)
	must(t, err)
	if got != want {
		t.Errorf("Check has read %d bytes of %d", got, want)
	}
	got = 0
	_, err = Run(t.Context(), "db", "new", o)
	must(t, err)
	if got < want*9/10 || got > want {
		t.Errorf("Run has read %d bytes of %d", got, want)
	}
}

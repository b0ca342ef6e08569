package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A hookedFS is the file system of a reader. It calls functions before a file is opened, and before one is read.
type hookedFS struct {
	vfs.FS
	opening func(name string) error // nil: none
	reading func(name string, off int64)

	mu     sync.Mutex
	opened map[string]int // how often each file was opened
}

func (h *hookedFS) Open(name string) (vfs.File, error) {
	name = filepath.Base(name)
	if h.opening != nil {
		if err := h.opening(name); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	f, err := h.FS.Open("db/" + name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened == nil {
		h.opened = make(map[string]int)
	}
	h.opened[name]++
	return hookedFile{f, h, name}, nil
}

type hookedFile struct {
	vfs.File
	h    *hookedFS
	name string
}

func (f hookedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.h.reading != nil {
		f.h.reading(f.name, off)
	}
	return f.File.ReadAt(p, off)
}

// mostOpened returns how often the table was opened that was opened most often.
func (h *hookedFS) mostOpened() (name string, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, times := range h.opened {
		if strings.HasSuffix(n, ".sst") && times > most {
			name, most = n, times
		}
	}
	return name, most
}

// tablesStore is a store of n tables and a few more, whose keys are of the form k00001.
func tablesStore(t testing.TB, n int, opts *Options) *DB {
	t.Helper()
	db := openTest(t, opts)
	for i := range n * 5 {
		mustPut(t, db, fmt.Sprintf("k%05d", i), strings.Repeat("v", 900))
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	db.awaitDeletions(context.Background())
	if got := len(db.Inspect().Tables()); got < n {
		t.Fatalf("%d tables, want %d", got, n)
	}
	return db
}

// rewrite overwrites some keys next to each other and compacts them, so that a few tables go and others come.
func rewrite(t testing.TB, db *DB, r *rand.Rand) {
	t.Helper()
	at := r.IntN(300)
	for i := range 4 {
		mustPut(t, db, fmt.Sprintf("k%05d", at+i), strings.Repeat("w", 900))
	}
	lower, upper := fmt.Sprintf("k%05d", at), fmt.Sprintf("k%05d", at+4)
	if err := db.Compact(context.Background(), Range{Lower: []byte(lower), Upper: []byte(upper)}); err != nil {
		t.Error(err)
	}
	db.awaitDeletions(context.Background())
}

// Where each file takes a millisecond to open, all tables of a store take longer than the writer needs to compact
// some of them away. Open and Advance end all the same, because no attempt opens a table again.
func TestAdvance_SlowOpensBesideABusyWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		opts := tinyStore(mem)
		opts.CompactionWorkers, opts.Compression = -1, NoCompression
		db := tablesStore(t, 129, &opts)
		begin := time.Now()
		slow := &hookedFS{FS: mem, opening: func(string) error {
			time.Sleep(time.Millisecond)
			if time.Since(begin) > 20*time.Second {
				return errors.New("it does not end")
			}
			return nil
		}}
		ro := opts
		ro.ReadOnly, ro.FS = true, slow
		var rewritten atomic.Int64
		done := make(chan struct{})
		var writer sync.WaitGroup
		defer writer.Wait()
		defer close(done)
		writer.Go(func() {
			r := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-done:
					return
				case <-time.After(2 * time.Millisecond):
					rewrite(t, db, r)
					rewritten.Add(1)
				}
			}
		})
		follower, err := Open("db", &ro)
		if err != nil {
			t.Fatalf("Open, %v after its begin: %v", time.Since(begin), err)
		}
		defer closeTest(t, follower)
		if n := rewritten.Load(); n < 3 {
			t.Errorf("the writer was at work %d times", n)
		}
		if name, n := slow.mostOpened(); n > 1 {
			t.Errorf("%s was opened %d times", name, n)
		}
		for range 5 {
			time.Sleep(200 * time.Millisecond) // so that most tables are new
			if _, err := follower.Advance(context.Background()); err != nil {
				t.Fatalf("Advance: %v", err)
			}
		}
		if name, n := slow.mostOpened(); n > 1 {
			t.Errorf("%s was opened %d times", name, n)
		}
		wantGet(t, follower, "k00500", strings.Repeat("v", 900), true)
	})
}

// The logs of each attempt are gone before they are opened, so the handle shows what the tables have. The writer has
// been opened again, and its manifest counts a write that is only in a log: that one is not shown as if it had never been.
func TestAdvance_OutrunByAnotherWriter(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	db := openTest(t, &opts)
	flush := func(key string) {
		mustPut(t, db, key, "v")
		if err := db.Flush(context.Background()); err != nil {
			t.Error(err)
		}
		db.awaitDeletions(context.Background())
	}
	hooked := &hookedFS{FS: mem}
	ro := opts
	ro.ReadOnly, ro.FS = true, hooked
	follower := openTest(t, &ro)
	mustPut(t, db, "a", "v")
	var outrun, again, last bool
	hooked.opening = func(name string) error {
		switch {
		case name == base.CurrentName && outrun && !again:
			again = true
			flush("b")
			mustPut(t, db, "c", "v")
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			db = openTest(t, &opts)
		case strings.HasSuffix(name, ".wal") && !last:
			outrun, last = true, again
			flush("d")
			flush("e")
		}
		return nil
	}
	if seq, err := follower.Advance(context.Background()); err != nil || seq != uint64(db.commits.Visible()) || !last {
		t.Errorf("Advance = %d, %v, the writer has %d; all has happened: %v", seq, err, db.commits.Visible(), last)
	}
	wantGet(t, follower, "c", "v", true)
}

// A reader that gets to run only now and then finds each time that its files are gone: the writer has rotated and
// flushed its logs, renewed its manifest, or compacted, between any two of its steps. It gets through once it is let,
// however often that was.
func TestAdvance_StarvedReader(t *testing.T) {
	testenv.SkipRace(t)
	for _, kind := range []string{".wal", ".sst", "MANIFEST", ".flt"} {
		t.Run(kind, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := tinyStore(mem)
			opts.CompactionWorkers = -1
			f := newFollowed(t, 1, opts)
			for range 100 {
				f.write()
			}
			starving := 0 // how often the writer does something yet
			overtake := func(name string) {
				if starving == 0 || !strings.Contains(name, kind) {
					return
				}
				starving--
				for range 40 { // of up to 200 bytes and more: a few logs
					f.write()
				}
				var err error
				ctx := context.Background()
				switch kind {
				case "MANIFEST":
					f.db.tree.RenewManifest()
					err = f.db.Flush(ctx)
				case ".flt":
					fs := f.opts.FS
					err = f.db.Close()
					f.opts.FS, f.opts.Tuning.FilterPrefix = mem, FixedPrefix(1+starving%7)
					f.open()
					f.opts.FS = fs
					_, rebuildErr := f.db.Inspect().RebuildFilters(ctx)
					err = errors.Join(err, rebuildErr)
				default:
					err = errors.Join(f.db.Flush(ctx), f.db.Compact(ctx, Range{}))
				}
				if err != nil {
					t.Error(err)
				}
				f.db.awaitDeletions(ctx)
			}
			if kind == ".flt" {
				starving = 1
				overtake(kind) // the tables get sidecars
			}
			var mu sync.Mutex
			reader := &hookedFS{FS: mem, opening: func(name string) error {
				mu.Lock()
				defer mu.Unlock()
				overtake(name)
				return nil
			}, reading: func(name string, off int64) {
				mu.Lock()
				defer mu.Unlock()
				if kind == ".wal" {
					overtake(name)
				}
			}}
			f.opts.FS = reader
			often := 50
			if testenv.Race {
				often = 22
			}
			starving = often
			acked := f.acked
			ro := f.follow()
			f.opts.FS = mem
			// If the logs go, and what they had is in tables, the reader need not wait.
			if met := often - starving; met < 2 || kind != ".wal" && met < 11 {
				t.Errorf("Open has met the writer only %d times", met)
			}
			if seq := uint64(ro.commits.Visible()); seq < acked {
				t.Errorf("Open shows number %d, and %d was acknowledged before", seq, acked)
			}
			f.check(ro, uint64(ro.commits.Visible()))
			for range 40 {
				f.write()
			}
			mustFlush(t, f.db)
			if kind == ".flt" {
				starving = 1
				overtake(kind)
			}
			starving = often
			f.advance(ro)
			if met := often - starving; met < 2 || kind != ".wal" && met < 11 {
				t.Errorf("Advance has met the writer only %d times", met)
			}
		})
	}
}

// Damage is not taken for a race: not next to a writer that never rests, and at once without one. A store that
// needs a file which is not there says so.
func TestAdvance_DamageIsNoRace(t *testing.T) {
	for _, busy := range []bool{false, true} {
		for _, kind := range []string{"missing", "cut", "missing filter"} {
			t.Run(fmt.Sprintf("%s, busy=%v", kind, busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem := vfs.NewMem()
					opts := tinyStore(mem)
					opts.CompactionWorkers = -1
					f := newFollowed(t, 2, opts)
					for range 200 {
						f.write()
					}
					ctx := context.Background()
					if err := f.db.Compact(ctx, Range{}); err != nil {
						t.Fatal(err)
					}
					if err := f.db.Close(); err != nil {
						t.Fatal(err)
					}
					f.opts.FilterBits = 20
					f.open()
					if _, err := f.db.Inspect().RebuildFilters(ctx); err != nil {
						t.Fatal(err)
					}
					f.db.awaitDeletions(ctx)
					var victim *base.FileNum
					for table := range f.db.mems.View().Meta.Tables() {
						if num := table.Num; victim == nil && kind != "missing filter" {
							victim = &num
						} else if s := table.Sidecar; s != nil && kind == "missing filter" {
							victim = &s.Num
						}
					}
					name := base.TableName(*victim)
					if kind == "missing filter" {
						name = base.FilterName(*victim)
					}
					reader := &hookedFS{FS: mem, opening: func(n string) error {
						if n == name && kind != "cut" {
							return fs.ErrNotExist
						}
						if busy && n == base.CurrentName {
							f.write()
							mustFlush(t, f.db) // another state each time that the reader looks
						}
						return nil
					}}
					f.opts.FS = reader
					ro := f.opts
					ro.ReadOnly = true
					if kind == "cut" {
						cut, err := mem.OpenReadWrite("db/" + name)
						if err = errors.Join(err, cut.Truncate(100), cut.Close()); err != nil {
							t.Fatal(err)
						}
					}
					begin := time.Now()
					db, err := Open("db", &ro)
					if took := time.Since(begin); took > 50*time.Millisecond {
						t.Errorf("Open took %v", took)
					}
					if kind == "missing filter" {
						if err != nil {
							t.Fatalf("Open without a filter: %v", err)
						}
						if err := db.Close(); err != nil {
							t.Error(err)
						}
						f.opts.FS = mem
						return
					}
					var damage *CorruptionError
					if !errors.As(err, &damage) || damage.File != name {
						t.Errorf("Open: %v, want damage of %s", err, name)
					}
					f.opts.FS = mem
					f.db.files.Close() // the writer's Verify must not find it
				})
			})
		}
	}
}

// That a process has no descriptors left is no race: Open and Advance say so at the second try.
func TestAdvance_NoDescriptorsIsNoRace(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers = -1
	f := newFollowed(t, 2, opts)
	f.write()
	mustFlush(t, f.db)
	for _, name := range []string{base.CurrentName, ".wal", ".sst"} {
		var out atomic.Bool
		tries := atomic.Int64{}
		f.opts.FS = &hookedFS{FS: mem, opening: func(n string) error {
			if n == base.CurrentName {
				if tries.Add(1) > 100 {
					return errors.New("enough")
				}
				f.write()
				if name == ".sst" {
					mustFlush(t, f.db)
				}
			}
			if out.Load() && strings.Contains(n, name) {
				return syscall.EMFILE
			}
			return nil
		}}
		ro := f.follow()
		out.Store(true)
		tries.Store(0)
		if _, err := ro.Advance(context.Background()); !errors.Is(err, syscall.EMFILE) || tries.Load() > 2 {
			t.Errorf("%s: Advance: %v after %d tries, want EMFILE and 2", name, err, tries.Load())
		}
		tries.Store(0)
		o := f.opts
		o.ReadOnly = true
		if _, err := Open("db", &o); !errors.Is(err, syscall.EMFILE) || tries.Load() > 2 {
			t.Errorf("%s: Open: %v after %d tries, want EMFILE and 2", name, err, tries.Load())
		}
		out.Store(false)
		f.advance(ro)
		f.opts.FS = mem
	}
}

// While a reader is in the middle of a log, the writer gives back what it has reserved behind the end of that, or trims
// a log that it has sealed: the file ends before the place to be read, again and again.
func TestAdvance_LogIsCutShort(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers, opts.MemtableSize, opts.testing.noMap = -1, 8<<20, true
	f := newFollowed(t, 2, opts)
	put := func() {
		k := fmt.Sprintf("k%03d", f.r.IntN(5))
		v := strings.Repeat("v", 40000+f.r.IntN(9000))
		f.ack(f.expect(1, func(m map[string]string) { m[k] = v }), f.db.Put([]byte(k), []byte(v)))
	}
	left := 0
	resize := func(name string, reserve int64) {
		log, err := mem.OpenReadWrite("db/" + name)
		if err == nil {
			err = errors.Join(log.Truncate(ShippingOf(f.db).Position().Written+reserve), log.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	reader := &hookedFS{FS: mem, opening: func(name string) error {
		if left > 0 && strings.HasSuffix(name, ".wal") {
			resize(name, 64<<10) // it has reserved more
		}
		return nil
	}, reading: func(name string, off int64) {
		if left > 0 && strings.HasSuffix(name, ".wal") && off > 0 {
			left--
			resize(name, 0)
		}
	}}
	for range 4 {
		put()
	}
	const often = 8
	f.opts.FS = reader
	left = often
	ro := f.follow()
	for range 10 {
		put()
		left = often
		f.check(ro, f.advance(ro))
		if left == often {
			t.Error("the log was not cut")
		}
	}
	f.opts.FS = mem
}

package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// needRoom are the operations that a full disk refuses.
var needRoom = []vfs.Op{vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpPreallocate}

// A disk is full, and has room again, several times. While it is full writers get errors that say so and
// readers nothing; then writing goes on by itself with the same handle, and no acknowledged write is
// lost. One event reports that writes are refused, and one that they are not any more.
func TestFault_FullDisk(t *testing.T) {
	testenv.SkipRace(t)
	seed := testenv.Seed(t)
	for i, noMap := range []bool{false, true} {
		for j, kind := range []string{".sst", ".wal", "MANIFEST", ""} {
			ok := t.Run(fmt.Sprintf("%q without mapping %v", kind, noMap), func(t *testing.T) {
				opts := harness.DrawSeeded(nil, seed, uint64(4*i+j))
				opts.MemtableSize = 48 << 10 // so that a log keeps within what is reserved for it
				opts.CompactionWorkers = max(opts.CompactionWorkers, 1)
				*harness.KnobsOf(&opts).NoMap = noMap
				defer func() {
					if t.Failed() {
						t.Log(harness.OptionsText(&opts))
					}
				}()
				fillDisk(t, kind, opts)
			})
			if !ok {
				return // each of the others would wait as long
			}
		}
	}
}

// fillDisk lets the files whose names contain kind find no room, now and then.
func fillDisk(t *testing.T, kind string, opts shale.Options) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	var full atomic.Bool
	opts.FS = faultfs.New(mem, func(op vfs.Op, name string, n int64) error {
		if full.Load() && strings.Contains(name, kind) && slices.Contains(needRoom, op) {
			return &faultfs.Fault{Err: syscall.ENOSPC, Short: n%2 == 0}
		}
		return nil
	})
	var told atomic.Int64
	var refusals refusals
	opts.OnEvent = func(e shale.Event) {
		refusals.note(t, e)
		if errors.Is(e.Err, syscall.ENOSPC) {
			told.Add(1)
		}
	}
	w := newSingleWriter()
	w.open(t, &opts)
	for round := range 3 {
		testenv.Within(t, 30*time.Second, "a store on a full disk", func() {
			full.Store(true)
			if err := w.fill(2000); err != nil && (!errors.Is(err, shale.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC)) {
				t.Errorf("round %d: Write on a full disk: %v", round, err)
			} else if err == nil && kind == "" {
				t.Errorf("round %d: writing goes on without any room", round)
			}
			w.check(t)
			full.Store(false)
			w.goOn(t, 200)
			w.check(t)
		})
	}
	if told.Load() == 0 {
		t.Error("no event tells of the full disk")
	}
	if refusals.refused() {
		t.Error("no event tells that writes are taken again")
	}
	if err := harness.Strays(w.db, mem, harness.Dir); err != nil {
		t.Error(err)
	}
	w.close(t, mem)
	opts.FS = mem.Crash(vfs.CrashConfig{})
	w.open(t, &opts)
	w.check(t)
	w.close(t, mem)
}

// A singleWriter is the only writer of a store on a disk in memory. Each write is as durable as the
// options say. One that fails is not there, and is tried again.
type singleWriter struct {
	*harness.Stream
	acked int
	db    *shale.DB
}

func newSingleWriter() *singleWriter { return &singleWriter{Stream: harness.NewStream("a", 1, 997)} }

func (w *singleWriter) open(t *testing.T, opts *shale.Options) {
	t.Helper()
	db, err := shale.Open(harness.Dir, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	w.db = db
}

// close verifies and closes the store, which must leave no file open.
func (w *singleWriter) close(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	harness.WantClose(t, w.db)
	wantNoOpenFiles(t, mem)
}

func wantNoOpenFiles(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files or locks are still open", n)
	}
}

// write makes the next write.
func (w *singleWriter) write() error {
	write := w.Write(w.acked + 1)
	write.Own = false
	err := w.db.Write(context.Background(), write.Batch())
	if err == nil {
		w.acked++
	}
	return err
}

// fill makes n writes, or as many as there is room for.
func (w *singleWriter) fill(n int) error {
	for range n {
		if err := w.write(); err != nil {
			return err
		}
	}
	return nil
}

// goOn makes n writes when there is room again. Each may have to wait until the store has tried again
// what found no room, which takes up to five seconds. If it waits in vain, it prints why the store
// refuses, and what happened before.
func (w *singleWriter) goOn(t *testing.T, n int) {
	t.Helper()
	for range n {
		err := w.write()
		for begin := time.Now(); err != nil; err = w.write() {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("waited in vain for writes to go on by themselves: %v\n%v", err, w.db.Inspect().RecentEvents())
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// check compares the store with what was acknowledged.
func (w *singleWriter) check(t *testing.T) {
	t.Helper()
	if err := w.Check(w.db, w.acked, w.acked); err != nil {
		t.Error(err)
	}
}

// After a failed sync of the log no write is taken, whatever later syncs would say, and each refusal
// names the cause. Reads go on. Resume makes what was acknowledged safe, and drops what was not.
func TestFault_FailedSyncOfTheLogIsFinal(t *testing.T) {
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	for i, noMap := range []bool{false, true} {
		mem := vfs.NewMem()
		faults := faultfs.New(mem, nil)
		opts := harness.DrawSeeded(faults, seed, uint64(i))
		opts.Durability = shale.SyncEach
		*harness.KnobsOf(&opts).NoMap = noMap
		failSync(t, opts, mem, faults)
		if t.Failed() {
			t.Log(harness.OptionsText(&opts))
		}
	}
}

// failSync fails a sync of the log of a store with the options.
func failSync(t *testing.T, opts shale.Options, mem *vfs.Mem, faults *faultfs.FS) {
	put := func(key string) shale.Op { return shale.Op{Kind: shale.OpPut, Key: []byte(key), Value: []byte("v")} }
	db, err := shale.Open(harness.Dir, &opts)
	if err != nil {
		t.Fatal(err)
	}
	write := func(key string) error { return db.Put([]byte(key), []byte("v")) }
	want := harness.State{}.With(put("safe"))
	if err := write("safe"); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		found, err := harness.Read(db)
		if err == nil {
			err = want.Diff(found)
		}
		if err != nil {
			t.Error(err)
		}
	}
	faults.Inject(faultfs.FailAt(1, syscall.EIO, vfs.OpSync))
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, shale.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s after a failed sync: %v, want ErrReadOnly that wraps EIO", what, err)
		}
	}
	refused("the write itself", write("unknown"))
	before := faults.Count(vfs.OpSync)
	if before == 0 {
		t.Error("nothing was synced")
	}
	refused("Put", write("refused"))
	refused("Delete", db.Delete([]byte("safe")))
	refused("Sync", db.Sync())
	refused("Flush", db.Flush(t.Context()))
	refused("Checkpoint", db.Checkpoint("copy"))
	refused("Compact", db.Compact(t.Context(), shale.Range{}))
	_, err = db.PutIfAbsent([]byte("refused"), []byte("v"))
	refused("PutIfAbsent", err)
	refused("Err", db.Err())
	if n := faults.Count(vfs.OpSync); n != before {
		t.Errorf("%d syncs after the failed one", n-before)
	}
	check()
	if err := errors.Join(db.Resume(), db.Err()); err != nil {
		t.Fatalf("Resume: %v", err)
	}
	check()
	if err := write("later"); err != nil {
		t.Fatal(err)
	}
	want = want.With(put("later"))
	opts.FS = mem.Crash(vfs.CrashConfig{Policy: vfs.Sectors, Names: vfs.NamesSubset, Seed: 1})
	harness.WantClose(t, db)
	if db, err = shale.Open(harness.Dir, &opts); err != nil {
		t.Fatal(err)
	}
	check()
	harness.WantClose(t, db)
}

// On a full disk Open says so at once, and changes nothing. A read-only handle needs no room.
func TestOpen_FullDisk(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	faults := faultfs.New(mem, nil)
	opts := harness.DrawSeeded(faults, testenv.Seed(t), 0)
	defer func() {
		if t.Failed() {
			t.Log(harness.OptionsText(&opts))
		}
	}()
	w := newSingleWriter()
	w.open(t, &opts)
	if err := w.fill(100); err != nil {
		t.Fatal(err)
	}
	w.check(t)
	w.close(t, mem)
	for k := int64(1); ; k++ {
		faults.Inject(faultfs.FullFrom(k, syscall.ENOSPC))
		var db *shale.DB
		var err error
		testenv.Within(t, 10*time.Second, "Open on a full disk", func() { db, err = shale.Open(harness.Dir, &opts) })
		ro := opts
		ro.ReadOnly = true
		w.open(t, &ro)
		w.check(t)
		harness.WantClose(t, w.db)
		if err == nil {
			// There was room for all that Open needs.
			faults.Inject(nil)
			harness.WantClose(t, db)
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("k %d: Open: %v, want ENOSPC", k, err)
		}
		wantNoOpenFiles(t, mem)
	}
	w.open(t, &opts)
	w.check(t)
	w.close(t, mem)
}

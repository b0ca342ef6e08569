package shale

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// needRoom are the operations that a full disk refuses.
var needRoom = []vfs.Op{vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpPreallocate}

// A disk is full, and has room again, several times. While it is full writers
// get errors that say so and readers nothing; then writing goes on by itself with
// the same handle, and no acknowledged write is lost. One event tells that writes
// are refused, and one that they are not any more.
func TestFault_FullDisk(t *testing.T) {
	testenv.SkipRace(t)
	for _, noMap := range []bool{false, true} {
		for _, kind := range []string{".sst", ".wal", "MANIFEST", ""} {
			name := fmt.Sprintf("%q without mapping %v", kind, noMap)
			t.Run(name, func(t *testing.T) { fillDisk(t, kind, noMap) })
		}
	}
}

// fillDisk lets the files whose names contain kind find no room, now and then.
func fillDisk(t *testing.T, kind string, noMap bool) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	var full atomic.Bool
	faults := vfs.NewFault(mem, func(op vfs.Op, name string, n int64) error {
		if full.Load() && strings.Contains(name, kind) && slices.Contains(needRoom, op) {
			return &vfs.Fault{Err: syscall.ENOSPC, Short: n%2 == 0}
		}
		return nil
	})
	opts := tinyStore(faults)
	opts.testing.noMap = noMap
	opts.MemtableSize = 48 << 10 // so that a log keeps within what is reserved for it
	var told atomic.Int64
	var refusals refusals
	opts.OnEvent = func(e Event) {
		refusals.note(t, e)
		if errors.Is(e.Err, syscall.ENOSPC) {
			told.Add(1)
		}
	}
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	w := &countingWriter{acked: make(map[string]string)}
	for round := range 3 {
		testenv.Within(t, 30*time.Second, "a store on a full disk", func() {
			full.Store(true)
			var err error
			for i := 0; err == nil && i < 2000; i++ {
				err = w.put(db)
			}
			if err != nil && (!errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.ENOSPC)) {
				t.Errorf("round %d: Put on a full disk: %v", round, err)
			}
			if err == nil && kind == "" {
				t.Errorf("round %d: writing goes on without any room", round)
			}
			wantAll(t, db, w.acked)
			full.Store(false)
			testenv.WaitFor(t, "writes to go on by themselves", func() bool { return w.put(db) == nil })
			for range 200 {
				if err := w.put(db); err != nil {
					t.Errorf("round %d: Put with room: %v", round, err)
				}
			}
			wantAll(t, db, w.acked)
		})
	}
	if told.Load() == 0 {
		t.Error("no event tells of the full disk")
	}
	if refusals.refused() {
		t.Error("no event tells that writes are taken again")
	}
	closeTest(t, db)
	wantNoOpenFiles(t, mem)
	opts.FS = mem.Crash(vfs.CrashConfig{})
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantAll(t, db, w.acked)
	closeTest(t, db)
}

// refusals follows the events that tell whether writes are refused.
type refusals struct {
	mu     sync.Mutex
	on     bool
	begins int
}

// note checks that beginning and end take turns.
func (r *refusals) note(t *testing.T, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case EventReadOnly:
		if r.on || e.Err == nil {
			t.Errorf("%v, %v while writes are refused: %v", e.Kind, e.Err, r.on)
		}
		r.on = true
		r.begins++
	case EventResumed:
		if !r.on {
			t.Errorf("%v though writes were not refused", e.Kind)
		}
		r.on = false
	}
}

func (r *refusals) refused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.on
}

// A countingWriter makes writes that differ and keeps those that succeeded.
type countingWriter struct {
	serial int
	acked  map[string]string
}

func (w *countingWriter) put(db *DB) error {
	key, value := fmt.Sprintf("key%04d", w.serial*7919%997), fmt.Sprint(w.serial, strings.Repeat(".", 90))
	w.serial++
	err := db.Put([]byte(key), []byte(value))
	if err == nil {
		w.acked[key] = value
	}
	return err
}

// wantAll checks that the store holds just these entries.
func wantAll(t *testing.T, db *DB, want map[string]string) {
	t.Helper()
	n := 0
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Errorf("Scan: %v", err)
			return
		}
		if n++; want[string(e.Key)] != string(e.Value) {
			t.Errorf("%q is %.20q, want %.20q", e.Key, e.Value, want[string(e.Key)])
			return
		}
	}
	if n != len(want) {
		t.Errorf("%d entries, want %d", n, len(want))
	}
}

// After a failed sync of the log no write is taken, whatever later syncs would
// say, and each refusal names the cause. Reads go on. Resume makes what was
// acknowledged safe, and drops what was not.
func TestFault_FailedSyncOfTheLogIsFinal(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		testenv.CheckLeaks(t)
		mem := vfs.NewMem()
		faults := vfs.NewFault(mem, nil)
		opts := tinyStore(faults)
		opts.Durability, opts.testing.noMap = SyncEach, noMap
		db, err := Open("db", &opts)
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, db, "safe", "v")
		faults.Inject(vfs.FailAt(1, syscall.EIO, vfs.OpSync))
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
				t.Errorf("%s after a failed sync: %v, want ErrReadOnly that wraps EIO", what, err)
			}
		}
		refused("the write itself", db.Put([]byte("unknown"), []byte("v")))
		if n := faults.Count(vfs.OpSync); n == 0 {
			t.Error("nothing was synced")
		}
		before := faults.Count(vfs.OpSync)
		refused("Put", db.Put([]byte("refused"), []byte("v")))
		refused("Delete", db.Delete([]byte("safe")))
		refused("Sync", db.Sync())
		refused("Flush", db.Flush(t.Context()))
		refused("Checkpoint", db.Checkpoint("copy"))
		refused("Compact", db.Compact(t.Context(), Range{}))
		_, err = db.PutIfAbsent([]byte("refused"), []byte("v"))
		refused("PutIfAbsent", err)
		refused("Err", db.Err())
		if n := faults.Count(vfs.OpSync); n != before {
			t.Errorf("%d syncs after the failed one", n-before)
		}
		check := func(db *DB) {
			t.Helper()
			wantGet(t, db, "safe", "v", true)
			wantGet(t, db, "unknown", "", false)
			wantGet(t, db, "refused", "", false)
		}
		check(db)
		if err := db.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := db.Err(); err != nil {
			t.Errorf("Err after Resume: %v", err)
		}
		check(db)
		mustPut(t, db, "later", "v")
		crashed := opts
		crashed.FS = mem.Crash(vfs.CrashConfig{Policy: vfs.Sectors, Names: vfs.NamesSubset, Seed: 1})
		closeTest(t, db)
		if db, err = Open("db", &crashed); err != nil {
			t.Fatal(err)
		}
		check(db)
		wantGet(t, db, "later", "v", true)
		closeTest(t, db)
	}
}

// A flush that finds no room is tried again, each time later, and by itself.
func TestFault_FlushBacksOff(t *testing.T) {
	testenv.CheckLeaks(t)
	var full atomic.Bool
	faults := vfs.NewFault(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
		if full.Load() && op == vfs.OpWrite && strings.HasSuffix(name, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})
	opts := tinyStore(faults)
	failed := make(chan time.Time, 1000)
	opts.OnEvent = func(e Event) {
		if e.Kind == EventBackgroundError && e.Reason == "flush" && errors.Is(e.Err, syscall.ENOSPC) {
			failed <- e.Time
		}
	}
	db := openTest(t, &opts)
	full.Store(true)
	for i := range 5 { // one memtable and a little
		mustPut(t, db, fmt.Sprint("key", i), strings.Repeat("v", 1000))
	}
	last := <-failed
	for n := 1; n <= 4; n++ {
		next := <-failed
		if next.Sub(last) < retryDelay(n) {
			t.Errorf("attempt %d came %v after the one before, want %v at least", n+1, next.Sub(last), retryDelay(n))
		}
		last = next
	}
	mustPut(t, db, "while", "the disk is full")
	full.Store(false)
	testenv.WaitFor(t, "the flush to succeed by itself", func() bool { return len(db.view.Load().imms) == 0 })
	wantGet(t, db, "key0", strings.Repeat("v", 1000), true)
	wantGet(t, db, "while", "the disk is full", true)
}

// On a full disk Open says so at once, and changes nothing. A read-only handle
// needs no room.
func TestOpen_FullDisk(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	opts := tinyStore(faults)
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	fillRandom(t, db, 0, 100)
	closeTest(t, db)
	for k := int64(1); ; k++ {
		faults.Inject(vfs.FullFrom(k, syscall.ENOSPC))
		var db *DB
		testenv.Within(t, 10*time.Second, "Open on a full disk", func() { db, err = Open("db", &opts) })
		ro := opts
		ro.ReadOnly = true
		reader, rerr := Open("db", &ro)
		if rerr != nil {
			t.Fatalf("k %d: read-only: %v", k, rerr)
		}
		wantGet(t, reader, "key000000", strings.Repeat("0.", 12), true)
		closeTest(t, reader)
		if err == nil {
			// There was room for all that Open needs.
			faults.Inject(nil)
			closeTest(t, db)
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("k %d: Open: %v, want ENOSPC", k, err)
		}
		wantNoOpenFiles(t, mem)
	}
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "key000000", strings.Repeat("0.", 12), true)
	closeTest(t, db)
}

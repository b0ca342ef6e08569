package shale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// openTest opens a store in memory, or in opts.FS. When the test ends it verifies the
// whole store, which asks every filter for every key of its table, and closes it.
func openTest(t testing.TB, opts *Options) *DB {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	db, err := Open("db", opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { closeTest(t, db) })
	return db
}

func mustOpen(t *testing.T, dir string, o *Options) *DB {
	t.Helper()
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test that closes it itself gets ErrClosed here
	return db
}

// closeTest verifies and closes db, unless the test has closed it.
func closeTest(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Verify(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("Verify: %v", err)
	}
	if err := db.Close(); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("Close: %v", err)
	}
}

// small returns options under which a few thousand entries make several levels.
func small() *Options {
	return &Options{MemtableSize: 16 << 10, TableSize: 16 << 10, BlockSize: 512, CacheSize: 64 << 10,
		Durability: SyncManual, testing: testOptions{baseSize: 32 << 10}}
}

// tinyStore returns options under which some hundred commits make levels, logs that are used
// again, and tables that are merged.
func tinyStore(fs vfs.FS) Options {
	return Options{FS: fs, MemtableSize: 4 << 10, TableSize: 4 << 10, BlockSize: 512, CacheSize: 32 << 10,
		CompactionWorkers: 1, Durability: SyncManual, OnEvent: func(Event) {},
		testing: testOptions{baseSize: 8 << 10, seed: 77, minPrepared: 1}}
}

func mustPut(t testing.TB, w Writer, key, value string) {
	t.Helper()
	if err := w.Put([]byte(key), []byte(value)); err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
}

func mustDelete(t testing.TB, w Writer, key string) {
	t.Helper()
	if err := w.Delete([]byte(key)); err != nil {
		t.Fatalf("Delete(%q): %v", key, err)
	}
}

func mustFlush(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Flush(context.Background()); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

func mustSnapshot(t testing.TB, db *DB) *Snapshot {
	t.Helper()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return s
}

func mustExplain(t testing.TB, db *DB, key string) Explanation {
	t.Helper()
	x, err := db.Inspect().Explain([]byte(key))
	if err != nil {
		t.Fatalf("Explain(%q): %v", key, err)
	}
	return x
}

// wantGet checks that all methods that look up a key agree on its value, or on its absence.
func wantGet(t testing.TB, r Reader, key, want string, found bool) {
	t.Helper()
	got, err := r.Get([]byte(key))
	if found && (err != nil || string(got) != want) {
		t.Errorf("Get(%q) = %q, %v; want %q", key, got, err, want)
	}
	if !found && !errors.Is(err, ErrNotFound) {
		t.Errorf("Get(%q) = %q, %v; want ErrNotFound", key, got, err)
	}
	if has, err := r.Has([]byte(key)); has != found || err != nil {
		t.Errorf("Has(%q) = %v, %v; want %v", key, has, err, found)
	}
	if got, _ := r.AppendValue([]byte("x"), []byte(key)); string(got) != "x"+want {
		t.Errorf("AppendValue(x, %q) = %q; want %q", key, got, "x"+want)
	}
	seen := ""
	err = r.ViewValue([]byte(key), func(v []byte) error { seen = string(v); return nil })
	if seen != want || found != (err == nil) {
		t.Errorf("ViewValue(%q) = %q, %v; want %q", key, seen, err, want)
	}
	if db, ok := r.(*DB); ok && found && !db.MayContain([]byte(key)) {
		t.Errorf("MayContain(%q) = false for a present key", key)
	}
}

func wantHas(t *testing.T, db *DB, key string, want bool) {
	t.Helper()
	if got, err := db.Has([]byte(key)); got != want || err != nil {
		t.Errorf("Has(%q) = %v, %v; want %v", key, got, err, want)
	}
}

// scanAll returns the entries of a range as "key=value key=value".
func scanAll(t testing.TB, r Reader, rng Range) string {
	t.Helper()
	var s strings.Builder
	for e, err := range r.Scan(rng) {
		if err != nil {
			t.Fatalf("Scan: %v", err)
		}
		fmt.Fprintf(&s, "%s=%s ", e.Key, e.Value)
	}
	return strings.TrimSpace(s.String())
}

// fill writes n entries in random order. Keys are key%06d, and each value names its key and
// the round.
func fill(t testing.TB, db *DB, n, round int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), uint64(round)))
	for _, i := range r.Perm(n) {
		mustPut(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round %d", i, round))
	}
}

// waitIdle waits until no memtable waits to be flushed, and no compaction runs or is due.
func waitIdle(t testing.TB, db *DB) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	ticker := time.AfterFunc(100*time.Millisecond, db.changes.Broadcast)
	defer ticker.Stop()
	db.changes.Await(ctx, func() bool {
		ticker.Reset(100 * time.Millisecond)
		return db.mems.View().Oldest() == nil && db.scheduler.Idle() || ctx.Err() != nil
	})
	if ctx.Err() != nil {
		t.Fatal("compactions do not come to an end")
	}
}

// settle flushes, and compacts as automatic compaction would until no compaction is due. It
// is for stores without compaction workers.
func settle(tb testing.TB, db *DB) {
	tb.Helper()
	mustFlush(tb, db)
	for {
		plan := db.scheduler.PickFor(1) // as if the store had one worker
		if plan == nil {
			return
		}
		err := db.runPlan(db.life.Context, plan)
		db.scheduler.Done(plan)
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// levelsInUse returns the levels that have tables.
func levelsInUse(db *DB) (levels []int) {
	for _, l := range db.Metrics().Levels {
		if l.Tables > 0 {
			levels = append(levels, l.Level)
		}
	}
	return levels
}

// compacting reports whether a compaction is under way.
func (db *DB) compacting() bool { return db.counters.compacting.Load() > 0 }

// abandon leaves the store's files as the death of the process would, but closes them and
// gives up the lock. The caller has ended the store's goroutines.
func (db *DB) abandon() {
	db.letGo()
	_ = db.unlock()
}

// tablesOnDisk waits until the files that nothing needs are removed, and returns how many tables the store's
// directory has. The goroutine that looks through the filters may hold a version for a moment longer than a
// compaction needs it, so more tables than the store shows are counted again for 20 ms.
func tablesOnDisk(t testing.TB, db *DB, fsys vfs.FS) (n int) {
	t.Helper()
	for range 20 {
		db.awaitDeletions(t.Context())
		names, err := fsys.List("db")
		if err != nil {
			t.Fatal(err)
		}
		n = 0
		for _, name := range names {
			if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileTable {
				n++
			}
		}
		if n <= len(db.Inspect().Tables()) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return n
}

// awaitRemovals waits until the store's directory has no table but those that the store shows.
func awaitRemovals(t testing.TB, db *DB) {
	t.Helper()
	testenv.WaitFor(t, "the tables that compactions have replaced to be removed", func() bool {
		return tablesOnDisk(t, db, db.fs) == len(db.Inspect().Tables())
	})
}

// wantNoOpenFiles checks that no file and no lock of mem is open: the store has closed all.
func wantNoOpenFiles(t testing.TB, mem *vfs.Mem) {
	t.Helper()
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files or locks are still open", n)
	}
}

// listDir returns the names in a directory of the disk, with spaces between them.
func listDir(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// errorIf returns err if the condition holds.
func errorIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// writerFunc is a function that serves as an io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// holdFlushes takes the turn to flush, so that no flush begins before release is called.
func holdFlushes(db *DB) (release func()) {
	turn := (*lockorder.Mutex[lockorder.Flusher])(reflect.ValueOf(&db.mems).Elem().FieldByName("turn").Addr().UnsafePointer())
	turn.Lock()
	return turn.Unlock
}

package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

// openTest opens a store in memory (or in opts.FS) and, when the test ends,
// verifies all of it, every key against its filter included, and closes it.
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

// small are options under which a few thousand entries make several levels.
func small() *Options {
	return &Options{MemtableSize: 16 << 10, TableSize: 16 << 10, BlockSize: 512, CacheSize: 64 << 10,
		Durability: SyncManual, testing: testOptions{baseSize: 32 << 10}}
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

// wantGet checks one answer through every way to ask.
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

func TestPutGetDelete(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "a", "1")
	mustPut(t, db, "b", "2")
	mustPut(t, db, "", "empty key")
	mustPut(t, db, "c", "")
	check := func() {
		t.Helper()
		wantGet(t, db, "a", "1", true)
		wantGet(t, db, "b", "2", true)
		wantGet(t, db, "", "empty key", true)
		wantGet(t, db, "c", "", true)
		wantGet(t, db, "d", "", false)
		if got, want := scanAll(t, db, Range{}), "=empty key a=1 b=2 c="; got != want {
			t.Errorf("Scan = %q, want %q", got, want)
		}
	}
	check()
	mustFlush(t, db)
	check()
	mustDelete(t, db, "b")
	mustPut(t, db, "a", "3")
	for range 2 {
		wantGet(t, db, "a", "3", true)
		wantGet(t, db, "b", "", false)
		if got, want := scanAll(t, db, Range{}.Reversed()), "c= a=3 =empty key"; got != want {
			t.Errorf("reverse Scan = %q, want %q", got, want)
		}
		mustFlush(t, db)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "a", "3", true)
	wantGet(t, db, "b", "", false)
	for _, table := range db.Tables() {
		if table.Tombstones != 0 {
			t.Errorf("table %d still has %d tombstones after a full compaction", table.Number, table.Tombstones)
		}
	}
}

func mustFlush(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Flush(context.Background()); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

// fill writes n entries in random order, key%06d = value of round.
func fill(t testing.TB, db *DB, n, round int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), uint64(round)))
	for _, i := range r.Perm(n) {
		mustPut(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round %d", i, round))
	}
}

func TestManyLevels(t *testing.T) {
	const n = 20000
	opts := small()
	db := openTest(t, opts)
	for round := range 3 {
		fill(t, db, n, round)
	}
	mustFlush(t, db)
	check := func() {
		t.Helper()
		for i := 0; i < n; i += 37 {
			wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 2", i), true)
			wantGet(t, db, fmt.Sprintf("key%06dx", i), "", false)
		}
		i := 0
		for e, err := range db.Scan(Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("key%06d", i); string(e.Key) != want {
				t.Fatalf("Scan: entry %d is %q, want %q", i, e.Key, want)
			}
			i++
		}
		if i != n {
			t.Errorf("Scan: %d entries, want %d", i, n)
		}
	}
	check()
	waitIdle(t, db)
	check()
	levels := 0
	for _, l := range db.Metrics().Levels {
		if l.Tables > 0 {
			levels++
		}
	}
	if levels < 2 {
		t.Errorf("the tree has %d levels:\n%v", levels, db.Metrics())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, opts)
	check()
}

// waitIdle waits until no compaction runs or is due.
func waitIdle(t testing.TB, db *DB) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	db.mu.Lock()
	defer db.mu.Unlock()
	for {
		if db.running == 0 && len(db.view.Load().imms) == 0 && !db.dueLocked() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("compactions do not come to an end")
		}
		stop := time.AfterFunc(100*time.Millisecond, db.broadcast)
		db.changed.Wait()
		stop.Stop()
	}
}

func TestSnapshot(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "a", "old")
	mustPut(t, db, "gone", "here")
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "a", "new")
	mustPut(t, db, "b", "later")
	mustDelete(t, db, "gone")
	for _, step := range []func(){
		func() {},
		func() { mustFlush(t, db) },
		func() {
			if err := db.Compact(context.Background(), Range{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		step()
		wantGet(t, s, "a", "old", true)
		wantGet(t, s, "gone", "here", true)
		wantGet(t, s, "b", "", false)
		wantGet(t, db, "a", "new", true)
		wantGet(t, db, "gone", "", false)
		if got, want := scanAll(t, s, Range{}), "a=old gone=here"; got != want {
			t.Errorf("Scan of the snapshot = %q, want %q", got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get([]byte("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
	if err := s.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v, want ErrClosed", err)
	}
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	var entries uint64
	for _, table := range db.Tables() {
		entries += table.Entries
	}
	if entries != 2 {
		t.Errorf("%d entries after the snapshot is gone, want 2", entries)
	}
}

func TestBatch(t *testing.T) {
	db := openTest(t, small())
	var b Batch
	mustPut(t, &b, "a", "1")
	mustPut(t, &b, "b", "2")
	mustDelete(t, &b, "a")
	if b.Len() != 3 {
		t.Errorf("Len = %d, want 3", b.Len())
	}
	for range 2 { // a batch may be written again
		if err := db.Write(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
	}
	wantGet(t, db, "a", "", false)
	wantGet(t, db, "b", "2", true)
	var ops []string
	for op := range b.Ops() {
		ops = append(ops, fmt.Sprintf("%v %s %s", op.Kind, op.Key, op.Value))
	}
	if got, want := strings.Join(ops, "; "), "put a 1; put b 2; delete a "; got != want {
		t.Errorf("Ops = %q, want %q", got, want)
	}
	b.Reset()
	if b.Len() != 0 || db.Write(context.Background(), &b) != nil {
		t.Errorf("an empty batch: Len %d", b.Len())
	}
	if err := b.Put(make([]byte, MaxKeySize+1), nil); !errors.Is(err, ErrKeyTooLarge) {
		t.Errorf("Put of a huge key: %v, want ErrKeyTooLarge", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := db.Write(ctx, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("Write with a cancelled context: %v", err)
	}
}

func TestPutIfAbsent(t *testing.T) {
	db := openTest(t, small())
	for i, want := range []bool{true, false, false} {
		if got, err := db.PutIfAbsent([]byte("k"), fmt.Append(nil, i)); got != want || err != nil {
			t.Errorf("PutIfAbsent %d = %v, %v; want %v", i, got, err, want)
		}
	}
	wantGet(t, db, "k", "0", true)
	mustDelete(t, db, "k")
	if got, err := db.PutIfAbsent([]byte("k"), []byte("again")); !got || err != nil {
		t.Errorf("PutIfAbsent of a deleted key = %v, %v; want true", got, err)
	}
}

// Of many goroutines that claim the same keys each key has one winner.
func TestPutIfAbsent_OneWinner(t *testing.T) {
	db := openTest(t, small())
	const goroutines, keys = 8, 2000
	var won [goroutines]int
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range keys {
				ok, err := db.PutIfAbsent(fmt.Appendf(nil, "key%05d", i), fmt.Append(nil, g))
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					won[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range won {
		sum += n
	}
	if sum != keys {
		t.Errorf("%d claims won for %d keys", sum, keys)
	}
	counts := make([]int, goroutines)
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		counts[e.Value[0]-'0']++
	}
	if !slices.Equal(counts, won[:]) {
		t.Errorf("values in the store %v, claims won %v", counts, won)
	}
}

func TestGetMany(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 3000, 0)
	mustFlush(t, db)
	keys := [][]byte{[]byte("key000010"), []byte("nope"), []byte("key000010"), []byte("key002999"), []byte(""), []byte("key000000")}
	next := 0
	err := db.GetMany(keys, func(i int, value []byte, found bool) error {
		if i != next {
			t.Errorf("fn got index %d, want %d", i, next)
		}
		next++
		want, err := db.Get(keys[i])
		if found != (err == nil) || !bytes.Equal(value, want) || (!found && value != nil) {
			t.Errorf("GetMany %q = %q, %v; Get = %q, %v", keys[i], value, found, want, err)
		}
		return nil
	})
	if err != nil || next != len(keys) {
		t.Errorf("GetMany: %v after %d keys", err, next)
	}
	boom := errors.New("boom")
	if err := db.GetMany(keys, func(int, []byte, bool) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("GetMany = %v, want fn's error", err)
	}
}

func TestRange(t *testing.T) {
	db := openTest(t, small())
	for _, k := range []string{"a", "b", "b\xff", "b\xff\xff", "c", "\xff", "\xff\xff"} {
		mustPut(t, db, k, "")
	}
	for _, c := range []struct {
		r    Range
		want string
	}{
		{Range{}, `"a" "b" "b\xff" "b\xff\xff" "c" "\xff" "\xff\xff"`},
		{Range{Lower: []byte("b")}, `"b" "b\xff" "b\xff\xff" "c" "\xff" "\xff\xff"`},
		{Range{Upper: []byte("b")}, `"a"`},
		{Range{Upper: []byte{}}, ``},
		{Range{Lower: []byte("c"), Upper: []byte("b")}, ``},
		{Prefix("b"), `"b" "b\xff" "b\xff\xff"`},
		{Prefix("b\xff"), `"b\xff" "b\xff\xff"`},
		{Prefix("\xff"), `"\xff" "\xff\xff"`},
		{Prefix(""), `"a" "b" "b\xff" "b\xff\xff" "c" "\xff" "\xff\xff"`},
		{Prefix("b").Reversed(), `"b\xff\xff" "b\xff" "b"`},
		{Range{Limit: 2}, `"a" "b"`},
		{Range{Limit: 2, Reverse: true}, `"\xff\xff" "\xff"`},
	} {
		var got []string
		for e, err := range db.Scan(c.r) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%+q", e.Key))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("Scan(%+v) = %s, want %s", c.r, s, c.want)
		}
	}
}

// After Close every call gives ErrClosed and nothing panics.
func TestClosed(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 3000, 0)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	it := db.NewIterator(Range{})
	if !it.Next() {
		t.Fatal(it.Err())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	k := []byte("key000001")
	errorOf := func(_ any, err error) error { return err }
	scanError := func(r Reader) error {
		for _, err := range r.Scan(Range{}) {
			return err
		}
		return nil
	}
	for name, err := range map[string]error{
		"Get":           errorOf(db.Get(k)),
		"AppendValue":   errorOf(db.AppendValue(nil, k)),
		"ViewValue":     db.ViewValue(k, func([]byte) error { return nil }),
		"Has":           errorOf(db.Has(k)),
		"Scan":          scanError(db),
		"Put":           db.Put(k, k),
		"Delete":        db.Delete(k),
		"Write":         db.Write(ctx, &Batch{}),
		"PutIfAbsent":   errorOf(db.PutIfAbsent(k, k)),
		"GetMany":       db.GetMany([][]byte{k}, func(int, []byte, bool) error { return nil }),
		"Snapshot":      errorOf(db.Snapshot()),
		"Sync":          db.Sync(),
		"Flush":         db.Flush(ctx),
		"Compact":       db.Compact(ctx, Range{}),
		"Checkpoint":    db.Checkpoint("copy"),
		"Verify":        db.Verify(ctx),
		"Resume":        db.Resume(),
		"Explain":       errorOf(db.Explain(k)),
		"Close":         db.Close(),
		"Snapshot.Get":  errorOf(s.Get(k)),
		"Snapshot.Has":  errorOf(s.Has(k)),
		"Snapshot.Scan": scanError(s),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if it.Next() || !errors.Is(it.Err(), ErrClosed) {
		t.Errorf("Next after Close: %v, want ErrClosed", it.Err())
	}
	if it.First() || it.Last() || it.SeekGE(k) || it.SeekLT(k) || it.Prev() || it.Valid() {
		t.Error("an iterator of a closed store moves")
	}
	if err := it.Close(); err != nil {
		t.Errorf("Iterator.Close: %v", err)
	}
	if err := it.Close(); err != nil {
		t.Errorf("second Iterator.Close: %v", err)
	}
	if !db.MayContain(k) {
		t.Error("MayContain on a closed store claims to know")
	}
	_, _ = db.Tables(), db.Metrics().String()
	_ = s.Close()
}

func TestOpenErrors(t *testing.T) {
	fsys := vfs.NewMem()
	db := openTest(t, &Options{FS: fsys})
	if _, err := Open("db", &Options{FS: fsys}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		opts Options
		want error
	}{
		{"db", Options{ErrorIfExists: true}, fs.ErrExist},
		{"none", Options{MustExist: true}, fs.ErrNotExist},
		{"none", Options{ReadOnly: true}, fs.ErrNotExist},
	} {
		c.opts.FS = fsys
		if _, err := Open(c.dir, &c.opts); !errors.Is(err, c.want) {
			t.Errorf("Open(%q, %+v): %v, want %v", c.dir, c.opts, err, c.want)
		}
	}
	for _, opts := range []Options{{MemtableSize: 1}, {BlockSize: 1}, {TableSize: 1}, {FilterBits: 1000}, {Compression: 9}, {Durability: 7}, {MaxOpenFiles: 1}} {
		opts.FS = fsys
		if _, err := Open("db", &opts); err == nil || !strings.Contains(err.Error(), "option") {
			t.Errorf("Open with %+v: %v, want an error that names the option", opts, err)
		}
	}
	if n := fsys.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after failed Opens", n)
	}
}

// A read-only store shows the state at its opening, also beside a writer, and
// writes nothing.
func TestReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	opts := small()
	db, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fill(t, db, 5000, 0)
	before := listDir(t, dir)
	ro, err := Open(dir, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if after := listDir(t, dir); !strings.Contains(after, "LOCK") || len(after) < len(before)/2 {
		t.Errorf("directory before %s, after %s", before, after)
	}
	fill(t, db, 5000, 1)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 5000; i += 7 {
		wantGet(t, ro, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
	}
	for name, err := range map[string]error{
		"Put":     ro.Put([]byte("k"), nil),
		"Delete":  ro.Delete([]byte("k")),
		"Flush":   ro.Flush(context.Background()),
		"Compact": ro.Compact(context.Background(), Range{}),
		"Sync":    ro.Sync(),
		"Resume":  ro.Resume(),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", name, err)
		}
	}
	if err := ro.Verify(context.Background()); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

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

func TestCheckpoint(t *testing.T) {
	fsys := vfs.NewMem()
	opts := small()
	opts.FS = fsys
	db := openTest(t, opts)
	fill(t, db, 3000, 0)
	if err := db.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint("copy"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Checkpoint into an existing directory: %v", err)
	}
	fill(t, db, 3000, 1)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	cp, err := Open("copy", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, cp)
	for i := range 3000 {
		wantGet(t, cp, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
		wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 1", i), true)
	}
	fill(t, cp, 3000, 2)
	wantGet(t, cp, "key000000", "value 0 of round 2", true)
	wantGet(t, db, "key000000", "value 0 of round 1", true)
}

func TestExplain(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 5000, 0)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "key000003", "new")
	x, err := db.Explain([]byte("key000003"))
	if err != nil || !x.Found || string(x.Value) != "new" || x.Steps[0].Verdict != Found || x.Steps[len(x.Steps)-1].Verdict != Skipped {
		t.Errorf("Explain = %v, %v", x, err)
	}
	x, err = db.Explain([]byte("key000004"))
	if err != nil || !x.Found || x.Steps[len(x.Steps)-1].Verdict != Found || len(x.Steps[len(x.Steps)-1].Blocks) == 0 {
		t.Errorf("Explain = %v, %v", x, err)
	}
	no := 0
	for i := range 1000 {
		x, err = db.Explain(fmt.Appendf(nil, "key%06dx", i))
		if err != nil || x.Found {
			t.Fatalf("Explain = %v, %v", x, err)
		}
		if last := x.Steps[len(x.Steps)-1]; last.Verdict == FilterNegative {
			no++
		}
	}
	if no < 900 {
		t.Errorf("filters said no to %d of 1000 absent keys", no)
	}
	if s := x.String(); !strings.Contains(s, "not found: 1 filter asked") {
		t.Errorf("String() = %s", s)
	}
}

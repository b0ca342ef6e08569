package shale

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/offheap"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// sortedKeys yields the keys with the numbers from one to below the other, all with the same value.
func sortedKeys(from, to int, value string) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for i := from; i < to; i++ {
			if !yield(fmt.Appendf(nil, "k%06d", i), []byte(value)) {
				return
			}
		}
	}
}

// sortedList yields the keys in the order of its arguments, all with the value v.
func sortedList(keys ...string) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for _, key := range keys {
			if !yield([]byte(key), []byte("v")) {
				return
			}
		}
	}
}

func mustIngest(t testing.TB, db *DB, sorted iter.Seq2[[]byte, []byte]) {
	t.Helper()
	if err := db.Ingest(context.Background(), sorted); err != nil {
		t.Fatalf("Ingest: %v", err)
	}
}

// levelsOf lists the level of each run: "0 0 6" for two runs in level 0 and one in level 6.
func levelsOf(db *DB) string {
	var levels []string
	for _, l := range db.Metrics().Levels {
		for range l.Runs {
			levels = append(levels, fmt.Sprint(l.Level))
		}
	}
	return strings.Join(levels, " ")
}

// Metrics counts ingested entries as writes, and their tables for the write amplification.
func TestIngest_Metrics(t *testing.T) {
	db := openTest(t, small())
	mustIngest(t, db, sortedKeys(0, 1000, "1"))
	m := db.Metrics()
	if size := uint64(len("k000000") + len("1")); m.Ingests != 1 || m.Writes != 1000 || m.WrittenBytes != 1000*size {
		t.Errorf("%d ingestions, %d writes of %d bytes; want 1, 1000, %d", m.Ingests, m.Writes, m.WrittenBytes, 1000*size)
	}
	tables := int64(0)
	for _, table := range db.Inspect().Tables() {
		tables += table.Size
	}
	if m.IngestBytes != uint64(tables) || m.WriteAmp() < float64(tables)/float64(m.WrittenBytes) {
		t.Errorf("%d bytes of tables ingested, want %d; write amplification %.2f", m.IngestBytes, tables, m.WriteAmp())
	}
	if text := m.String(); !strings.Contains(text, "ingested "+base.FormatBytes(tables)) {
		t.Errorf("the metrics do not tell what was ingested:\n%s", text)
	}
}

// An ingestion that is given up frees the memory outside of the heap, where it keeps the hashes of keys
// for a filter.
func TestIngest_GivenUpMemory(t *testing.T) {
	o := small()
	o.TableSize = 64 << 20
	db := openTest(t, o)
	const n = 200_000 // enough to outweigh what collections free of earlier stores meanwhile
	taken := int64(0)
	before := offheap.InUse()
	err := db.Ingest(t.Context(), func(yield func([]byte, []byte) bool) {
		for k, v := range sortedKeys(0, n, "v") {
			yield(k, v)
		}
		taken = offheap.InUse() - before
		yield([]byte("a"), nil)
	})
	if left := offheap.InUse() - before; !errors.Is(err, ErrNotAscending) || taken < 4*n || left > taken/4 {
		t.Errorf("%v; %d bytes were taken for %d keys, and %d are left", err, taken, n, left)
	}
}

// An ingestion that fails leaves no key and no file, and later ingestions succeed.
func TestIngest_Refused(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	o := small()
	o.FS = mem
	db := openTest(t, o)
	mustPut(t, db, "before", "v")
	canceled, cancel := context.WithCancelCause(context.Background())
	why := errors.New("line 7 is bad")
	cancel(why)
	later, cancelLater := context.WithCancelCause(context.Background())
	cases := []struct {
		name   string
		ctx    context.Context
		sorted iter.Seq2[[]byte, []byte]
		want   string
		is     error
	}{
		{"descending", context.Background(), sortedList("b", "a"), `"a" is not above the key before it, "b"`, ErrNotAscending},
		{"twice", context.Background(), sortedList("a", "a"), `"a" is not above`, ErrNotAscending},
		{"the empty key twice", context.Background(), sortedList("", ""), `"" is not above`, ErrNotAscending},
		{"a large key", context.Background(), sortedList("a", strings.Repeat("b", MaxKeySize+1)), "65536 bytes", ErrKeyTooLarge},
		{"a large value", context.Background(), func(yield func([]byte, []byte) bool) { yield([]byte("a"), make([]byte, MaxValueSize+1)) }, "bytes", ErrValueTooLarge},
		{"no time", canceled, sortedKeys(0, 5000, "v"), "line 7", why},
		{"given up", later, func(yield func([]byte, []byte) bool) {
			for k, v := range sortedKeys(0, 5000, "v") {
				if string(k) == "k004000" {
					cancelLater(why)
					return
				}
				if !yield(k, v) {
					return
				}
			}
		}, "line 7", why},
	}
	for _, c := range cases {
		err := db.Ingest(c.ctx, c.sorted)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		wantNothingLeft(t, db, mem)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Ingest(context.Background(), func(yield func([]byte, []byte) bool) { yield([]byte("a"), nil); panic("mine") })
	}()
	wantNothingLeft(t, db, mem)
	mustIngest(t, db, sortedList())
	mustIngest(t, db, sortedList("", "a", "before"))
	if n := mem.OpenFiles(); n > 8 {
		t.Errorf("%d files are open", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Ingest(context.Background(), sortedList("b")); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	o.ReadOnly = true
	ro := openTest(t, o)
	wantGet(t, ro, "", "v", true)
	if err := ro.Ingest(context.Background(), sortedList("b")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("read-only: %v", err)
	}
}

// wantNothingLeft checks that the store has one key, and that its directory has no table but the
// store's own.
func wantNothingLeft(t *testing.T, db *DB, mem *vfs.Mem) {
	t.Helper()
	keys, tables := 0, 0
	for range db.Scan(Range{}) {
		keys++
	}
	names, err := mem.List("db")
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables++
		}
	}
	if keys != 1 || tables != len(db.Inspect().Tables()) || err != nil {
		t.Errorf("%d keys and %d tables on disk are left, %v", keys, tables, err)
	}
}

// While an ingestion installs its tables, their place is reserved, so that no compaction writes there.
func TestIngest_ReservesItsPlace(t *testing.T) {
	mem := vfs.NewMem()
	o := small()
	o.FS = mem
	db := openTest(t, o)
	reserved := 0
	mem.OnOp(func(op vfs.Op, name string) {
		if op != vfs.OpWrite || !strings.Contains(name, "MANIFEST") {
			return
		}
		plan := db.scheduler.PlaceIngest([]byte("k000100"), []byte("k000100"))
		db.scheduler.FreeInputs(plan)
		if plan.To == 0 { // the last level is in use, and the others stay empty
			reserved++
		}
	})
	mustPut(t, db, "a", "v")
	mustFlush(t, db)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	reserved = 0
	mustIngest(t, db, sortedKeys(0, 5000, "v"))
	mem.OnOp(nil)
	if reserved != 1 {
		t.Errorf("the place was reserved at %d writes to the manifest, want 1", reserved)
	}
	if len(db.Inspect().Tables()) == 0 {
		t.Error("no tables")
	}
	left := db.scheduler.PlaceIngest([]byte("x"), []byte("x"))
	if left.To != 6 {
		t.Errorf("afterwards level 6 is in use still: %v", left.To)
	}
}

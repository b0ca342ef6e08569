package shale

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Gone at the millisecond, for each kind of read, in a memtable and in a table.
func TestTTL_AtTheMillisecond(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
			defer db.Close()
			mustPut(t, db, "k", "old")
			if flushed {
				mustFlush(t, db)
			}
			mustPutTTL(t, db, "k", "v", time.Second)
			mustPut(t, db, "stays", "1")
			if flushed {
				mustFlush(t, db)
			}
			end := time.Now().Add(time.Second)
			read := func(want bool) {
				t.Helper()
				wantGet(t, db, "k", map[bool]string{true: "v"}[want], want)
				if has, err := db.Has([]byte("k")); has != want || err != nil {
					t.Errorf("Has: %v, %v, want %v", has, err, want)
				}
				buf, err := db.AppendValue([]byte("x"), []byte("k"))
				if string(buf) != "xv" && want || string(buf) != "x" && !want {
					t.Errorf("AppendValue: %q, %v", buf, err)
				}
				err = db.ViewValue([]byte("k"), func(v []byte) error {
					if string(v) != "v" {
						t.Errorf("ViewValue: %q", v)
					}
					return nil
				})
				if (err == nil) != want {
					t.Errorf("ViewValue: %v", err)
				}
				if err := db.GetMany([][]byte{[]byte("k"), []byte("stays")}, func(i int, v []byte, found bool) error {
					if found != (want || i == 1) || found && i == 0 && string(v) != "v" {
						t.Errorf("GetMany %d: %q %v", i, v, found)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				for _, reverse := range []bool{false, true} {
					n := 0
					for e, err := range db.Scan(Range{Reverse: reverse}) {
						if err != nil {
							t.Fatal(err)
						}
						if string(e.Key) == "k" && (string(e.Value) != "v" || !e.ExpiresAt.Equal(end)) || string(e.Key) == "stays" && !e.ExpiresAt.IsZero() {
							t.Errorf("Scan: %q = %q until %v", e.Key, e.Value, e.ExpiresAt)
						}
						n++
					}
					if n != 1 && !want || n != 2 && want {
						t.Errorf("Scan, reverse %v: %d entries", reverse, n)
					}
				}
				at, err := db.ExpiresAt([]byte("k"))
				if want && (!at.Equal(end) || err != nil) || !want && !errors.Is(err, ErrNotFound) {
					t.Errorf("ExpiresAt: %v, %v", at, err)
				}
				if at, err := db.ExpiresAt([]byte("stays")); !at.IsZero() || err != nil {
					t.Errorf("ExpiresAt of what stays: %v, %v", at, err)
				}
				x, err := db.Inspect().Explain([]byte("k"))
				if x.Found != want || err != nil || strings.Contains(x.String(), "expired at 2000-01-01T00:00:01Z") == want {
					t.Errorf("Explain: %v\n%s", err, x)
				}
			}
			read(true)
			time.Sleep(time.Second - time.Millisecond)
			read(true)
			if n := db.Metrics().GetExpired; n != 0 {
				t.Errorf("GetExpired = %d", n)
			}
			time.Sleep(time.Millisecond)
			read(false)
			if n := db.Metrics().GetExpired; n != 9 {
				t.Errorf("GetExpired = %d, want 9", n)
			}
		})
	}
}

// A reader has the time of its beginning, however the store has come to have values that expire.
func TestTTL_ReadersKeepTheirTime(t *testing.T) {
	for _, how := range []string{"by a batch", "by calls", "by a transaction", "in the log", "in a table"} {
		t.Run(how, func(t *testing.T) { readersKeepTheirTime(t, how) })
	}
}

func readersKeepTheirTime(t *testing.T, how string) {
	clock := newHandClock()
	o := clock.options(Options{FS: vfs.NewMem(), CompactionWorkers: -1})
	db := mustOpen(t, "db", o)
	defer func() { db.Close() }()
	var b Batch
	until := clock.now().Add(time.Minute)
	for _, key := range []string{"a", "c"} {
		if err := b.Add(Op{Kind: OpPut, Key: []byte(key), Value: []byte("1"), ExpiresAt: until}); err != nil {
			t.Fatal(err)
		}
	}
	mustPut(t, db, "b", "1")
	switch how {
	case "by calls":
		mustPutTTL(t, db, "a", "1", time.Minute)
		if inserted, err := db.PutIfAbsentTTL([]byte("c"), []byte("1"), time.Minute); !inserted || err != nil {
			t.Fatal(inserted, err)
		}
	case "by a transaction":
		if err := db.Update(context.Background(), func(tx *Txn) error {
			mustPutTTL(t, tx, "a", "1", time.Minute)
			mustPutTTL(t, tx.Sub("c"), "", "1", time.Minute)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	default:
		if err := db.Write(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if how == "in a table" {
		mustFlush(t, db)
	}
	if strings.HasPrefix(how, "in") {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = mustOpen(t, "db", o)
	}
	snapshot, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	writable, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	view, err := db.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	it := db.NewIterator(Range{})
	defer it.Close()
	if !it.First() {
		t.Fatal(it.Err())
	}
	for range 3 {
		clock.jump(time.Hour)
		for name, r := range map[string]Reader{"snapshot": snapshot, "transaction": writable, "view": view, "part": snapshot.Sub("")} {
			if got := dumpReader(t, r); got != "a=1 b=1 c=1 " {
				t.Errorf("%s: %q", name, got)
			}
			if v, err := r.Get([]byte("a")); string(v) != "1" {
				t.Errorf("%s: Get: %q, %v", name, v, err)
			}
		}
		for _, step := range []func() bool{it.Last, it.Prev, it.Prev, it.Next, it.Next} {
			if !step() {
				t.Errorf("the iterator has ended: %v", it.Err())
			}
		}
		if got := dumpReader(t, db); got != "b=1 " {
			t.Errorf("now: %q", got)
		}
		mustFlush(t, db)
		compactAll(t, db)
	}
	if err := writable.PutTTL([]byte("own"), []byte("1"), time.Second); err != nil {
		t.Fatal(err)
	}
	clock.jump(time.Minute)
	if got := dumpReader(t, writable); got != "a=1 b=1 c=1 own=1 " {
		t.Errorf("with its own write: %q", got)
	}
	if err := writable.Commit(context.Background()); err != nil {
		t.Error(err) // the passing of time is no conflict
	}
	view.Discard()
	snapshot.Close()
	compactAll(t, db)
	if n := entriesInTables(db); n != 1 {
		t.Errorf("%d entries are left in tables", n)
	}
}

// The first value that expires may come within a transaction that has begun before any was there.
func TestTTL_FirstOfTheStoreInATransaction(t *testing.T) {
	clock := newHandClock()
	db := mustOpen(t, "db", clock.options(Options{FS: vfs.NewMem()}))
	defer db.Close()
	tx, err := db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	mustPutTTL(t, tx, "a", "1", time.Minute)
	mustPutTTL(t, tx, "b", "1", 0)
	if inserted, err := tx.Sub("").PutIfAbsentTTL([]byte("b"), []byte("2"), time.Minute); !inserted || err != nil {
		t.Errorf("PutIfAbsentTTL: %v, %v", inserted, err)
	}
	if inserted, err := tx.Sub("").PutIfAbsentTTL([]byte("b"), []byte("3"), time.Minute); inserted || err != nil {
		t.Errorf("PutIfAbsentTTL again: %v, %v", inserted, err)
	}
	if got := dumpReader(t, tx); got != "a=1 b=2 " {
		t.Errorf("own writes: %q", got)
	}
	at, err := tx.ExpiresAt([]byte("a"))
	if !at.Equal(clock.now().Add(time.Minute)) || err != nil {
		t.Errorf("ExpiresAt: %v, %v", at, err)
	}
	clock.jump(time.Minute)
	if got := dumpReader(t, tx); got != "a=1 b=2 " {
		t.Errorf("own writes a minute later: %q", got)
	}
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := dumpReader(t, db); got != "" {
		t.Errorf("after the commit: %q", got)
	}
}

// Times to live that are odd, and what takes the place of a value that expires.
func TestTTL_OddTimes(t *testing.T) {
	clock := newHandClock()
	db := mustOpen(t, "db", clock.options(Options{FS: vfs.NewMem()}))
	defer db.Close()
	for _, ttl := range []time.Duration{0, -1, math.MinInt64} {
		mustPut(t, db, "gone", "1")
		mustPutTTL(t, db, "gone", "2", ttl)
		wantGet(t, db, "gone", "", false)
		if inserted, err := db.PutIfAbsentTTL([]byte("gone"), []byte("3"), ttl); !inserted || err != nil {
			t.Errorf("PutIfAbsentTTL for %v: %v, %v", ttl, inserted, err)
		}
		wantGet(t, db, "gone", "", false)
	}
	for ttl, want := range map[time.Duration]time.Time{
		1:               clock.now().Add(time.Millisecond),
		time.Minute + 1: clock.now().Add(time.Minute + time.Millisecond),
		math.MaxInt64:   clock.now().Add(math.MaxInt64).Truncate(time.Millisecond).Add(time.Millisecond),
	} {
		mustPutTTL(t, db, "k", "v", ttl)
		if at, err := db.ExpiresAt([]byte("k")); !at.Equal(want) || err != nil {
			t.Errorf("a ttl of %v: until %v, %v, want %v", ttl, at, err, want)
		}
	}
	thousand := clock.now().AddDate(1000, 0, 0).Truncate(time.Millisecond)
	latest := time.UnixMilli(base.MaxExpiry)
	for at, want := range map[time.Time]time.Time{thousand: thousand, latest.Add(time.Hour): latest, time.UnixMilli(math.MaxInt64): latest} {
		var b Batch
		if err := b.Add(Op{Kind: OpPut, Key: []byte("k"), Value: []byte("v"), ExpiresAt: at}); err != nil {
			t.Fatal(err)
		}
		if err := db.Write(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		if at, err := db.ExpiresAt([]byte("k")); !at.Equal(want) || err != nil {
			t.Errorf("until %v, %v, want %v", at, err, want)
		}
	}
	var b Batch
	if err := b.Add(Op{Kind: OpPut, Key: []byte("k"), ExpiresAt: time.Time{}.Add(1)}); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k", "", false)
	if err := db.PutTTL([]byte("k"), make([]byte, MaxValueSize-5), time.Hour); !errors.Is(err, ErrValueTooLarge) {
		t.Errorf("a value of %d bytes: %v", MaxValueSize-5, err)
	}
	// A put for ever ends the time to live, and the reverse.
	mustPutTTL(t, db, "k", "1", time.Minute)
	mustPut(t, db, "k", "2")
	clock.jump(time.Hour)
	wantGet(t, db, "k", "2", true)
	mustPutTTL(t, db, "k", "3", time.Minute)
	if inserted, err := db.PutIfAbsentTTL([]byte("k"), []byte("4"), time.Minute); inserted || err != nil {
		t.Errorf("PutIfAbsentTTL over a value: %v, %v", inserted, err)
	}
	clock.jump(time.Hour)
	if inserted, err := db.PutIfAbsent([]byte("k"), []byte("5")); !inserted || err != nil {
		t.Errorf("PutIfAbsent over what is over: %v, %v", inserted, err)
	}
	mustPutTTL(t, db, "k", "6", time.Minute)
	if err := db.Delete([]byte("k")); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k", "", false)
}

// The store's time never goes back: not while it is open, and not behind what was dropped.
func TestTTL_ClockJumps(t *testing.T) {
	clock, mem := newHandClock(), vfs.NewMem()
	open := func() *DB {
		return mustOpen(t, "db", clock.options(Options{FS: mem, CompactionWorkers: -1}))
	}
	db := open()
	mustPutTTL(t, db, "k", "v", time.Minute)
	clock.jump(time.Hour)
	wantGet(t, db, "k", "", false)
	clock.jump(-time.Hour)
	wantGet(t, db, "k", "", false)
	mustPutTTL(t, db, "k", "w", time.Minute) // from the store's time on
	clock.jump(30 * time.Minute)
	wantGet(t, db, "k", "w", true)
	clock.jump(31 * time.Minute)
	wantGet(t, db, "k", "", false)
	mustFlush(t, db) // makes it a tombstone
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	clock.jump(-24 * time.Hour)
	db = open()
	end := db.snapshots.Clock.Now()
	if want := clock.ms.Load() + (24 * time.Hour).Milliseconds(); end > want || end < want-time.Hour.Milliseconds() {
		t.Errorf("after the restart it is %v, want what was dropped at least, and at most the time then", time.UnixMilli(end))
	}
	mustPutTTL(t, db, "k", "x", time.Minute)
	if at, err := db.ExpiresAt([]byte("k")); err != nil || at.UnixMilli() != end+60_000 {
		t.Errorf("ExpiresAt: %v, %v", at, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What an operation that expires looks like in a batch, and after a round trip.
func TestTTL_Ops(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_123)
	var b Batch
	for _, op := range []Op{
		{Kind: OpPut, Key: []byte("a"), Value: []byte("1")},
		{Kind: OpPut, Key: []byte("b"), Value: []byte{}, ExpiresAt: at},
		{Kind: OpDelete, Key: []byte("c")},
	} {
		if err := b.Add(op); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add(Op{Kind: 7, Key: []byte("d")}); err == nil {
		t.Errorf("an unknown kind: %v", err)
	}
	_, again, err := DecodeBatch(b.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	var carried Batch
	for op := range again.Ops() {
		if want := op.Key[0] == 'b'; op.ExpiresAt.Equal(at) != want || op.ExpiresAt.IsZero() == want {
			t.Errorf("%s: until %v", op.Key, op.ExpiresAt)
		}
		if err := carried.Add(op); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(carried.AppendTo(nil), b.AppendTo(nil)) {
		t.Error("the batch changed on its way")
	}
	if _, _, err := DecodeBatch([]byte("\x01\x01\x04\x01k\x05abcde")); err == nil || errors.Is(err, ErrFormatTooNew) {
		t.Errorf("a value without a time: %v", err)
	}
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A snapshot shows its state through flushes and compactions. A compaction after its Close drops
// what only the snapshot needed.
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

// Snapshots are taken and closed in random order while flushes and compactions run. Each shows its
// state until it is closed.
func TestSnapshot_Many(t *testing.T) {
	opts := small()
	opts.MemtableSize, opts.TableSize, opts.testing.baseSize = 4<<10, 4<<10, 8<<10
	db := openTest(t, opts)
	r := rand.New(rand.NewPCG(3, 4))
	state := make(map[string]string)
	type held struct {
		s     *Snapshot
		state map[string]string
	}
	var open []held
	check := func(h held) {
		t.Helper()
		n := 0
		for e, err := range h.s.Scan(Range{}) {
			if want, ok := h.state[string(e.Key)]; err != nil || !ok || want != string(e.Value) {
				t.Fatalf("snapshot %d: %q = %q, %v; want %q", h.s.Seq(), e.Key, e.Value, err, want)
			}
			n++
		}
		if n != len(h.state) {
			t.Fatalf("snapshot %d has %d entries, want %d", h.s.Seq(), n, len(h.state))
		}
		key := fmt.Sprintf("key%03d", r.IntN(150))
		want, ok := h.state[key]
		wantGet(t, h.s, key, want, ok)
	}
	for step := range 6000 {
		key := fmt.Sprintf("key%03d", r.IntN(150))
		if r.IntN(3) == 0 {
			mustDelete(t, db, key)
			delete(state, key)
		} else {
			state[key] = fmt.Sprint("value ", step)
			mustPut(t, db, key, state[key])
		}
		if step%97 == 0 {
			copied := make(map[string]string, len(state))
			for k, v := range state {
				copied[k] = v
			}
			open = append(open, held{mustSnapshot(t, db), copied})
		}
		if step%131 == 0 && len(open) > 10 || step == 5999 {
			i := r.IntN(len(open))
			check(open[i])
			if err := open[i].s.Close(); err != nil {
				t.Fatal(err)
			}
			open = append(open[:i], open[i+1:]...)
		}
	}
	if n := db.Metrics().OpenSnapshots; n != int64(len(open)) {
		t.Errorf("%d snapshots are open, %d by the metrics", len(open), n)
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	for _, h := range open {
		check(h)
		if err := h.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	waitIdle(t, db)
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	var entries uint64
	for _, info := range db.Tables() {
		entries += info.Entries
	}
	if entries != uint64(len(state)) {
		t.Errorf("%d entries are stored for %d keys and no snapshot", entries, len(state))
	}
}

// Two snapshots are taken of the same state. When one of them is closed, the other keeps what it
// needs.
func TestSnapshot_SameState(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "k", "old")
	first, second := mustSnapshot(t, db), mustSnapshot(t, db)
	if first.Seq() != second.Seq() {
		t.Errorf("two snapshots of one state: %d and %d", first.Seq(), second.Seq())
	}
	mustPut(t, db, "k", "new")
	if third := mustSnapshot(t, db); third.Seq() <= second.Seq() {
		t.Errorf("a later snapshot has number %d, the one before %d", third.Seq(), second.Seq())
	} else if err := third.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	wantGet(t, second, "k", "old", true)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// An iterator of a snapshot still shows the snapshot's state after the snapshot was closed.
func TestSnapshot_IteratorOutlivesIt(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "a", "old")
	mustFlush(t, db)
	mustPut(t, db, "b", "old")
	s := mustSnapshot(t, db)
	it := s.NewIterator(Range{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b", "c"} {
		mustPut(t, db, k, "new")
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	got := ""
	for it.Next() {
		got += fmt.Sprintf("%s=%s ", it.Key(), it.Value())
	}
	if got != "a=old b=old " || it.Err() != nil {
		t.Errorf("the iterator gives %s, %v", got, it.Err())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	late := s.NewIterator(Range{})
	if late.Next() || !errors.Is(late.Err(), ErrClosed) || late.Close() != nil {
		t.Errorf("an iterator of a closed snapshot: %v, want ErrClosed", late.Err())
	}
}

// A table holds a key only in a version that is newer than a snapshot. A lookup through the
// snapshot does not find it, and the store must not remember the key as absent from that table.
func TestSnapshot_LaterKeyIsNotRememberedAbsent(t *testing.T) {
	db := openTest(t, small())
	mustPut(t, db, "a", "1")
	mustPut(t, db, "c", "1")
	s := mustSnapshot(t, db)
	mustPut(t, db, "b", "later")
	mustFlush(t, db)
	for range 2 {
		wantGet(t, s, "b", "", false)
		wantGet(t, db, "b", "later", true)
	}
	if n := db.Metrics().FalsePositivesRemembered; n != 0 {
		t.Errorf("%d lookups were answered from memory", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A snapshot of a read-only store shows the state at which the store was opened.
func TestSnapshot_OfAReadOnlyStore(t *testing.T) {
	mem := vfs.NewMem()
	db := openTest(t, &Options{FS: mem})
	mustPut(t, db, "k", "v")
	ro := openTest(t, &Options{FS: mem, ReadOnly: true})
	s := mustSnapshot(t, ro)
	mustPut(t, db, "k", "w")
	wantGet(t, s, "k", "v", true)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A snapshot is closed in the middle of one of its lookups, and a compaction may drop what the
// lookup is about to find. The lookup returns ErrClosed, and not that the key is absent.
func TestSnapshot_ClosedInTheMidstOfALookup(t *testing.T) {
	key := []byte("k")
	got := func(v []byte, err error) (string, error) { return string(v), err }
	for name, call := range map[string]func(s *Snapshot) (string, error){
		"Get":         func(s *Snapshot) (string, error) { return got(s.Get(key)) },
		"AppendValue": func(s *Snapshot) (string, error) { return got(s.AppendValue([]byte("mine"), key)) },
		"ViewValue": func(s *Snapshot) (v string, err error) {
			err = s.ViewValue(key, func(value []byte) error { v = string(value); return nil })
			return v, err
		},
		"Has": func(s *Snapshot) (string, error) {
			has, err := s.Has(key)
			return fmt.Sprint(has), err
		},
	} {
		for _, compact := range []bool{false, true} { // without a compaction the value is still there
			fault := faultfs.New(vfs.NewMem(), nil)
			opts := small()
			opts.FS, opts.CompactionWorkers, opts.CacheSize = fault, -1, -1
			db := openTest(t, opts)
			mustPut(t, db, "k", "old")
			mustFlush(t, db)
			s := mustSnapshot(t, db)
			mustPut(t, db, "k", "new")
			mustFlush(t, db)
			var met atomic.Bool
			fault.Inject(func(op vfs.Op, _ string, _ int64) error {
				if op == vfs.OpRead && met.CompareAndSwap(false, true) { // the first read is of the newer table
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					if !compact {
						return nil
					}
					if err := db.Compact(context.Background(), Range{}); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			v, err := call(s)
			if err != ErrClosed || !met.Load() {
				t.Errorf("%s (compaction: %v) = %q, %v; want ErrClosed", name, compact, v, err)
			}
			if want := map[string]string{"AppendValue": "mine", "Has": "false"}[name]; v != want {
				t.Errorf("%s gave %q with ErrClosed, want %q", name, v, want)
			}
		}
	}
}

// Reads of a snapshot run while it is closed. They return its values or ErrClosed: never another
// value, and never that a key is absent.
func TestSnapshot_ClosedBesideReads(t *testing.T) {
	const keys = 8
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i%keys) }
	rounds := 30
	if testenv.Long(t) > 0 {
		rounds = 300
	}
	for _, remove := range []bool{false, true} {
		o := small()
		o.FS = vfs.NewMem()
		db := openTest(t, o)
		for round := range rounds {
			want := fmt.Sprint(round)
			for i := range keys {
				mustPut(t, db, string(key(i)), want)
			}
			s := mustSnapshot(t, db)
			holds := func(what string, value []byte, err error) bool {
				if err == nil && string(value) != want || err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("round %d, keys removed %v: %s = %q, %v; want %s, or ErrClosed", round, remove, what, value, err, want)
				}
				return err == nil && !t.Failed()
			}
			var readers, begun sync.WaitGroup
			read := func(one func(i int) bool) {
				begun.Add(1)
				readers.Go(func() {
					for i := 0; one(i); i++ {
						if i == 0 {
							begun.Done()
						}
					}
				})
			}
			read(func(i int) bool {
				value, err := s.Get(key(i))
				return holds("Get", value, err)
			})
			read(func(i int) bool {
				found, err := s.Has(key(i))
				if err == nil && !found {
					return holds("Has", nil, ErrNotFound)
				}
				return holds("Has", []byte(want), err)
			})
			read(func(int) bool {
				n := 0
				for e, err := range s.Scan(Range{}) {
					if !holds("Scan", e.Value, err) {
						return false
					}
					n++
				}
				if n != keys {
					t.Errorf("round %d, keys removed %v: Scan gives %d keys, want %d, or ErrClosed", round, remove, n, keys)
				}
				return n == keys
			})
			begun.Wait()
			for i := range keys {
				if remove {
					mustDelete(t, db, string(key(i)))
				} else {
					mustPut(t, db, string(key(i)), "later")
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			mustFlush(t, db) // drops the versions that no snapshot needs
			readers.Wait()
			if t.Failed() {
				return
			}
		}
	}
}

// A snapshot that is closed has the scheduler look for a compaction only if one may have waited for it: if it
// was the oldest, and the last level has a table of many tombstones.
func TestSnapshot_CloseWakesTheSchedulerRarely(t *testing.T) {
	o := small()
	o.CompactionWorkers = -1 // nobody receives what wakes the scheduler
	db := openTest(t, o)
	woken := func() bool {
		select {
		case <-db.scheduler.Woken():
			return true
		default:
			return false
		}
	}
	write := func() { mustPut(t, db, "another", "1") }
	woken() // by Open
	for range 3 {
		s := mustSnapshot(t, db)
		write()
		if closeSnapshot(t, s); woken() {
			t.Error("woken in a store without tombstones")
		}
		err := db.GetMany([][]byte{[]byte("a"), []byte("b")}, func(int, []byte, bool) error { write(); return nil })
		if err != nil || woken() {
			t.Errorf("GetMany: %v, or it has woken the scheduler", err)
		}
	}

	// Tombstones that a snapshot keeps come to the last level.
	mustPut(t, db, "k", "old")
	oldest := mustSnapshot(t, db)
	mustDelete(t, db, "k")
	mustDelete(t, db, "l")
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	if last := db.Metrics().Levels[NumLevels-1]; last.Tombstones == 0 {
		t.Fatalf("the last level is %+v", last)
	}
	woken()
	again, newer := mustSnapshot(t, db), mustSnapshot(t, db)
	write()
	if closeSnapshot(t, newer); woken() {
		t.Error("woken although an older snapshot is open")
	}
	if closeSnapshot(t, oldest); !woken() {
		t.Error("not woken by the oldest snapshot")
	}
	if closeSnapshot(t, again); !woken() {
		t.Error("not woken by the last snapshot")
	}
}

// A table of the last level that has many tombstones is compacted by itself once no snapshot needs them.
func TestSnapshot_TombstonesGoWithTheLast(t *testing.T) {
	o := small()
	db := openTest(t, o)
	for i := range 100 {
		mustPut(t, db, fmt.Sprint(i), "old")
	}
	s := mustSnapshot(t, db)
	for i := range 90 {
		mustDelete(t, db, fmt.Sprint(i))
	}
	if err := db.Compact(t.Context(), Range{}); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, db)
	if last := db.Metrics().Levels[NumLevels-1]; last.Tombstones == 0 {
		t.Fatalf("the last level is %+v", last)
	}
	closeSnapshot(t, s)
	testenv.WaitFor(t, "the tombstones to go", func() bool { return db.Metrics().Levels[NumLevels-1].Tombstones == 0 })
}

func closeSnapshot(t *testing.T, s *Snapshot) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

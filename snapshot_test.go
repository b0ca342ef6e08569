package shale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

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
	for _, info := range db.Inspect().Tables() {
		entries += info.Entries
	}
	if entries != uint64(len(state)) {
		t.Errorf("%d entries are stored for %d keys and no snapshot", entries, len(state))
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

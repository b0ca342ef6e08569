package shale

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

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

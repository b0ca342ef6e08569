package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestStore_LostAnswers loses the answer of each call of the bucket once, and then its question. The store
// goes on as if nothing had happened: it is never taken for fenced, and the bucket has everything.
func TestStore_LostAnswers(t *testing.T) {
	life := func(t *testing.T, decide func(n int, call, name string) (before, after bool)) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			b := remotetest.NewFake(NewMem())
			lost := errors.New("connection lost")
			var mu sync.Mutex
			n := 0
			b.Hook(func(call, name string) error {
				mu.Lock()
				defer mu.Unlock()
				n++
				if before, _ := decide(n, call, name); before {
					return lost
				}
				return nil
			}, func(call, name string) error {
				mu.Lock()
				defer mu.Unlock()
				if _, after := decide(n, call, name); after {
					return lost
				}
				return nil
			})
			fsys, model := vfs.NewMem(), map[string]string{}
			for life := range 2 {
				o := manual(fsys)
				o.Uploads = 1
				o.testing.states = 3
				o.testing.patience = time.Minute
				s, err := Open(t.Context(), "db", b, o)
				mustNil(t, err)
				defer func() { _ = s.Close() }() // a test that fails must not leave it open
				for round := range 3 {
					put(t, s, model, fmt.Sprint(life, round), 3)
					mustNil(t, s.Ship(t.Context()))
					mustNil(t, s.DB().Flush(t.Context()))
					put(t, s, model, fmt.Sprint("b", life, round), 3)
					mustNil(t, s.Publish(t.Context()))
				}
				mustNil(t, s.Close())
			}
			b.Hook(nil, nil)
			sameMap(t, "restored", restoredContents(t, b), model)
			calls = n
		})
		return calls
	}
	calls := life(t, func(int, string, string) (bool, bool) { return false, false })
	every, seeds := 1, uint64(30)
	if testing.Short() {
		every, seeds = 7, 3
	}
	for k := 1; k <= calls; k += every {
		life(t, func(n int, _, _ string) (bool, bool) { return false, n == k })
		life(t, func(n int, _, _ string) (bool, bool) { return n == k, false })
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		life(t, func(int, string, string) (bool, bool) { return r.IntN(5) == 0, r.IntN(5) == 0 })
	}
	t.Log(calls, "calls")
}

// TestStore_Resume breaks the log by a sync that fails. After Resume the bucket goes on behind the gap, and
// has what the store has.
func TestStore_Resume(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	faulty := faultfs.New(mem, nil)
	b, model := NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(faulty))
	put(t, s, model, "a", 10)
	mustNil(t, s.Ship(t.Context()))
	put(t, s, model, "b", 10)
	failWrite(t, s, faulty)
	put(t, s, model, "c", 10)
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "store", contents(t, s.DB()), model)
	sameMap(t, "restored", restoredContents(t, b), model)
	put(t, s, model, "d", 10)
	mustNil(t, s.Close())
	s = openStore(t, "db", b, manual(faulty))
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "reopened and restored", restoredContents(t, b), model)
}

// TestStore_OpenedWithoutTheBucket opens the directory with package shale in between, which removes logs
// that were not shipped. What they had is in tables, and the bucket gets it.
func TestStore_OpenedWithoutTheBucket(t *testing.T) {
	testenv.CheckLeaks(t)
	fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "a", 10)
	mustNil(t, s.Close())
	for range 3 {
		db, err := shale.Open("db", &shale.Options{FS: fsys})
		mustNil(t, err)
		mustNil(t, db.Put([]byte("without"), []byte("x")))
		model["without"] = "x"
		mustNil(t, db.Flush(t.Context()))
		mustNil(t, db.Put([]byte("in the log"), []byte("y")))
		model["in the log"] = "y"
		mustNil(t, db.Close())
	}
	s = openStore(t, "db", b, manual(fsys))
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "restored", restoredContents(t, b), model)

	// All of it is in the bucket, though not in the logs there: a successor leaves nothing to salvage.
	mustNil(t, s.Close())
	other := vfs.NewMem()
	_, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: other})
	mustNil(t, err)
	openStore(t, "db", b, manual(other))
	for u, err := range Salvage(fsys, "db") {
		t.Errorf("salvaged number %d, %v", u.Seq, err)
	}
}

// TestStore_Ingest ingests keys between writes. A strict store acknowledges that only when the tables are in
// the bucket too; another one publishes them soon.
func TestStore_Ingest(t *testing.T) {
	sorted := func(prefix string) func(yield func(k, v []byte) bool) {
		return func(yield func(k, v []byte) bool) {
			for i := range 50 {
				if !yield(fmt.Appendf(nil, "%s%02d", prefix, i), []byte(prefix)) {
					return
				}
			}
		}
	}
	for _, strict := range []bool{true, false} {
		inTime(t, func(o *Options) { o.Strict = strict }, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
			time.Sleep(90 * time.Second)
			model := map[string]string{}
			for round := range 3 {
				put(t, s, model, fmt.Sprint("before", round), 3)
				prefix := fmt.Sprint("in", round)
				mustNil(t, s.DB().Ingest(t.Context(), sorted(prefix)))
				for k, v := range sorted(prefix) {
					model[string(k)] = string(v)
				}
				if !strict {
					time.Sleep(11 * time.Second)
				}
				sameMap(t, fmt.Sprintf("strict %v: restored after an ingestion", strict), restoredContents(t, b.Bucket), model)
				put(t, s, model, fmt.Sprint("after", round), 3)
			}
			mustNil(t, s.Ship(t.Context()))
			sameMap(t, fmt.Sprintf("strict %v: restored", strict), restoredContents(t, b.Bucket), model)
		})
	}
}

// TestSalvage fences a writer that had not shipped all it wrote. Salvage lists exactly that, whether the
// writer has noticed or its process had ended.
func TestSalvage(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, noticed := range []bool{true, false} {
		fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		s := openStore(t, "db", b, manual(fsys))
		put(t, s, model, "a", 30)
		mustNil(t, s.Publish(t.Context()))
		put(t, s, model, "b", 30)
		mustNil(t, s.Ship(t.Context()))
		shipped := maps.Clone(model)
		put(t, s, model, "c", 10)
		mustNil(t, s.DB().Flush(t.Context()))
		put(t, s, model, "d", 10)
		maps.DeleteFunc(model, func(k, _ string) bool { return shipped[k] != "" })

		other := vfs.NewMem()
		_, err := Restore(t.Context(), b, "new", At{}, &RestoreOptions{FS: other})
		mustNil(t, err)
		successor := openStore(t, "new", b, manual(other))
		sameMap(t, "the successor", contents(t, successor.DB()), shipped)
		if noticed {
			err := s.Ship(t.Context())
			if !errors.Is(err, ErrFenced) || !errors.Is(s.Err(), ErrFenced) || s.Status().Err == nil {
				t.Fatalf("Ship of a writer that is fenced: %v, %v", err, s.Err())
			}
			if err := s.DB().Put([]byte("k"), nil); !errors.Is(err, ErrFenced) || !errors.Is(err, shale.ErrReadOnly) || !strings.Contains(err.Error(), "Salvage") {
				t.Errorf("a write to it: %v", err)
			}
			if err := s.DB().Resume(); !errors.Is(err, ErrFenced) {
				t.Errorf("Resume of it: %v", err)
			}
			if got := contents(t, s.DB()); len(got) != 80 {
				t.Errorf("%d keys can be read from it, want 80", len(got))
			}
		}
		closed := s.Close()
		if noticed && errors.Is(closed, ErrFenced) || !noticed && !errors.Is(closed, ErrFenced) {
			t.Errorf("Close = %v", closed)
		}
		got, last := map[string]string{}, uint64(0)
		for u, err := range Salvage(fsys, "db") {
			mustNil(t, err)
			if u.Seq <= last {
				t.Errorf("number %d after %d", u.Seq, last)
			}
			last = u.Seq
			for op := range u.Batch.Ops() {
				got[string(op.Key)] = string(op.Value)
			}
		}
		sameMap(t, "salvaged", got, model)
		for range Salvage(fsys, "db") {
			break
		}
		refused(t, "the directory of a writer that is fenced", fsys, "db", b, ErrFenced, "restore", "Salvage")
		for _, err := range Salvage(vfs.NewMem(), "nowhere") {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Salvage of no directory: %v", err)
			}
		}
		empty := vfs.NewMem()
		mustNil(t, empty.MkdirAll("empty"))
		for _, err := range Salvage(empty, "empty") {
			if err == nil || !strings.Contains(err.Error(), "no notes") {
				t.Errorf("Salvage of no store: %v", err)
			}
		}
	}
}

// TestStore_LargeRecords writes records that are longer than a segment, and many in one.
func TestStore_LargeRecords(t *testing.T) {
	fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
	o := manual(fsys)
	o.Store.MemtableSize = 4 << 20
	o.testing.segment = 64 << 10
	s := openStore(t, "db", b, o)
	for i, n := range []int{10, 200 << 10, 10, 70 << 10, 64 << 10, 32 << 10, 31 << 10, 10, 1, 1 << 20} {
		key, value := fmt.Sprint("k", i), bytes.Repeat([]byte{byte('a' + i)}, n)
		mustNil(t, s.DB().Put([]byte(key), value))
		model[key] = string(value)
	}
	puts := b.Count("put", "")
	mustNil(t, s.Ship(t.Context()))
	if n := b.Count("put", "") - puts; n < 6 || n > 10 {
		t.Errorf("%d segments", n)
	}
	got, _ := shippedWrites(t, b.Bucket)
	sameMap(t, "shipped", got, model)
}

// TestStore_CopyCollects lets a copy of a directory own the store and collect everything, and then the first
// process goes on. The names of its next segments were used and are free again, but for that of a fence.
func TestStore_CopyCollects(t *testing.T) {
	testenv.CheckLeaks(t)
	fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "a", 10)
	mustNil(t, s.Ship(t.Context()))
	put(t, s, model, "b", 10) // in the log of both, and not in the bucket
	o := manual(copyOf(fsys))
	o.Retain = 1
	successor := openStore(t, "db", b, o)
	for round := range 3 {
		put(t, successor, model, fmt.Sprint("c", round), 10)
		mustNil(t, successor.DB().Flush(t.Context()))
		mustNil(t, successor.Publish(t.Context()))
		_, err := successor.Collect(t.Context())
		mustNil(t, err)
	}
	mustNil(t, s.DB().Put([]byte("zombie"), nil))
	if err := s.Ship(t.Context()); !errors.Is(err, ErrFenced) {
		t.Errorf("Ship of a writer whose copy owns the store = %v", err)
	}
	sameMap(t, "restored", restoredContents(t, b), model)
}

// TestStore_CrashBeforeShip loses a process whose last writes were not shipped. They are in tables of the next
// one, which acknowledges nothing before these are in the bucket.
func TestStore_CrashBeforeShip(t *testing.T) {
	for _, strict := range []bool{true, false} {
		fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		s := openStore(t, "db", b, manual(fsys))
		put(t, s, model, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		put(t, s, model, "b", 10)
		mustNil(t, s.DB().Delete([]byte("b0000")))
		delete(model, "b0000")
		o := manual(fsys.Crash(vfs.CrashConfig{}))
		o.Strict = strict
		s = openStore(t, "db", b, o)
		if lag := s.Lag(); lag.Seq != 21 || lag.Shipped != 10 {
			t.Errorf("strict %v: after the crash: %+v", strict, lag)
		}
		if strict {
			put(t, s, model, "c", 1)
		} else {
			mustNil(t, s.Ship(t.Context()))
		}
		if lag := s.Lag(); lag.Seq != lag.Shipped {
			t.Errorf("strict %v: %+v", strict, lag)
		}
		sameMap(t, fmt.Sprintf("strict %v: restored", strict), restoredContents(t, b), model)
	}
}

// failWrite has a write whose log fails, and takes it back.
func failWrite(t *testing.T, s *Store, faulty *faultfs.FS) {
	t.Helper()
	faulty.Inject(func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpSync && strings.HasSuffix(name, ".wal") {
			return syscall.EIO
		}
		return nil
	})
	if err := s.DB().Put([]byte("lost"), []byte("x")); !errors.Is(err, shale.ErrReadOnly) {
		t.Fatalf("Put = %v", err)
	}
	faulty.Inject(nil)
	mustNil(t, s.DB().Resume())
}

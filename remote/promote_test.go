package remote

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestPromote makes readers the owner, one after the other: all that was shipped is there, and the writer before is
// fenced.
func TestPromote(t *testing.T) {
	testenv.CheckLeaks(t)
	b := NewMem()
	w := startWriter(t, b, 1, shale.Options{})
	s := w.s
	w.commit(w.randomChanges())
	mustNil(t, s.Publish(t.Context()))
	r := openTestReader(t, b, ReaderOptions{})
	for range 4 {
		for range 30 {
			w.commit(w.randomChanges())
		}
		mustNil(t, s.Publish(t.Context()))
		w.commit(w.randomChanges())
		mustNil(t, s.Ship(t.Context()))
		last := shale.ShippingOf(w.db).Position().LastSeq
		begin := time.Now()
		next, err := r.Promote(t.Context(), "db", manual(vfs.NewMem()))
		mustNil(t, err)
		t.Logf("promoted in %v", time.Since(begin).Round(time.Millisecond))
		w.check(next.DB(), last)

		// The writer before learns of it with its next request.
		var late shale.Batch
		mustNil(t, late.Put([]byte("late"), []byte("too late")))
		_ = s.DB().Write(t.Context(), &late)
		if err := s.Ship(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("the writer before ships after the takeover: %v", err)
		}
		if err := s.Close(); err != nil && !errors.Is(err, ErrFenced) {
			t.Error(err)
		}
		s, w.db = next, next.DB()
		w.commit(w.randomChanges())
		mustNil(t, s.Ship(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		mustNil(t, r.WaitFor(t.Context(), shale.ShippingOf(w.db).Position().LastSeq))
		w.check(r, shale.ShippingOf(w.db).Position().LastSeq)
	}
	mustNil(t, r.Close())
	mustNil(t, s.Close())
}

// TestTakeOver_BusyWriter takes a store over from a writer that ships at each third call of the bucket. It is fenced, and all
// that it has shipped is there.
func TestTakeOver_BusyWriter(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b.Bucket, 3, shale.Options{})
	s := w.s
	w.commit(w.randomChanges())
	mustNil(t, s.Publish(t.Context()))
	var mu sync.Mutex
	shipped, calls, ships, fenced := shale.ShippingOf(w.db).Position().LastSeq, 0, 0, false
	b.HookReads(func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; fenced || calls%3 != 0 {
			return nil
		}
		w.commit(w.randomChanges())
		switch err := s.Ship(context.Background()); {
		case errors.Is(err, ErrFenced):
			fenced = true
		case err != nil:
			t.Error(err)
		default:
			shipped = shale.ShippingOf(w.db).Position().LastSeq
			ships++
		}
		return nil
	})
	next, err := TakeOver(t.Context(), b, "db", manual(vfs.NewMem()))
	mustNil(t, err)
	if !fenced || ships < 10 {
		t.Errorf("%d times shipped, fenced %v: the test shows nothing", ships, fenced)
	}
	w.check(next.DB(), shipped)
	mustNil(t, next.Close())
	_ = s.Close() // it is fenced
}

// TestTakeOver_Interrupted ends taking over at each call of the bucket, while a writer ships now and then. It is repeated
// then, and nothing that was shipped is missing.
func TestTakeOver_Interrupted(t *testing.T) {
	exist := 0
	for at := 1; ; at += 1 + at/16 {
		b := remotetest.NewFake(NewMem())
		w := startWriter(t, b.Bucket, 3, shale.Options{})
		s := w.s
		w.commit(w.randomChanges())
		mustNil(t, s.Publish(t.Context()))
		shipped := shale.ShippingOf(w.db).Position().LastSeq
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		n := 0
		b.Hook(func(string, string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == at {
				cancel()
			}
			if n%7 == 0 && w.db.Err() == nil {
				w.commit(w.randomChanges())
				if err := s.Ship(context.Background()); err == nil {
					shipped = shale.ShippingOf(w.db).Position().LastSeq
				}
			}
			return ctx.Err()
		}, nil)
		mem := vfs.NewMem()
		next, err := TakeOver(ctx, b, "db", manual(mem))
		b.Hook(nil, nil)
		whole := err == nil
		if !whole {
			mem = copyOf(mem)
			if next, err = TakeOver(t.Context(), b, "db", manual(mem)); errors.Is(err, fs.ErrExist) {
				exist++
				next, err = TakeOver(t.Context(), b, "another", manual(mem))
			}
		}
		if err != nil {
			t.Fatalf("after an end at call %d: %v", at, err)
		}
		w.check(next.DB(), shipped)
		mustNil(t, next.Close())
		_ = s.Close() // it is fenced
		cancel()
		if whole && n < at {
			t.Logf("%d calls, %d times the directory had a store", n, exist)
			return
		}
	}
}

// TestPromote_Refuses promotes into a directory that has files, and at a pin.
func TestPromote_Refuses(t *testing.T) {
	b := NewMem()
	w := startWriter(t, b, 1, shale.Options{})
	mem := vfs.NewMem()
	mustNil(t, mem.MkdirAll("db"))
	f, err := mem.Create("db/notes.txt")
	mustNil(t, err)
	mustNil(t, f.Close())
	r := openTestReader(t, b, ReaderOptions{})
	if _, err := r.Promote(t.Context(), "db", manual(mem)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Promote into a directory with a file: %v", err)
	}
	_, err = w.s.Pin(t.Context(), "now", PinOptions{})
	mustNil(t, err)
	r = openTestReader(t, b, ReaderOptions{Pin: "now"})
	if _, err := r.Promote(t.Context(), "db", manual(vfs.NewMem())); err == nil {
		t.Error("a reader at a pin is promoted")
	}
}

// TestWarm promotes into a directory that was warmed: only the tables that came since are fetched, and what the store
// needs no more is gone.
func TestWarm(t *testing.T) {
	testenv.CheckLeaks(t)
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 5, shale.Options{})
	s := w.s
	publish := func() {
		for range 100 {
			w.commit(w.randomChanges())
		}
		mustNil(t, w.db.Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
	}
	publish()
	r := openTestReader(t, b, ReaderOptions{})
	mem := vfs.NewMem()
	tables := func(do func()) int {
		before := b.Count("read", object.TableFolder)
		do()
		return b.Count("read", object.TableFolder) - before
	}
	warm := func() { mustNil(t, r.Warm(t.Context(), "new", mem)) }
	if n := tables(warm); n == 0 {
		t.Error("nothing was fetched")
	}
	if n := tables(warm); n != 0 {
		t.Errorf("%d GETs of tables that are there", n)
	}
	if _, err := shale.Open("new", &shale.Options{FS: mem, Exist: shale.MustExist}); err == nil {
		t.Error("a warm directory can be opened")
	}
	publish()
	mustNil(t, w.db.Compact(t.Context(), shale.Range{})) // all tables are others now
	mustNil(t, s.Publish(t.Context()))
	warm()
	w.commit(w.randomChanges())
	mustNil(t, s.Ship(t.Context()))
	last := shale.ShippingOf(w.db).Position().LastSeq
	var next *Store
	var err error
	if n := tables(func() {
		next, err = r.Promote(t.Context(), "new", manual(mem))
		mustNil(t, err)
	}); n != 0 {
		t.Errorf("%d GETs of tables that were fetched before", n)
	}
	w.check(next.DB(), last)
	mustNil(t, next.DB().Verify(t.Context()))
	if err := r.Warm(t.Context(), "new", mem); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Warm into the directory of a store: %v", err)
	}
	mustNil(t, next.Close())
	_ = s.Close() // it is fenced
}

// TestWarm_FileWasChanged cuts and removes tables in a warm directory before Promote, or changes a byte of each that an
// earlier process has fetched. They are fetched again.
func TestWarm_FileWasChanged(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		b := NewMem()
		w := startWriter(t, b, 7, shale.Options{})
		for range 300 {
			w.commit(w.randomChanges())
		}
		mustNil(t, w.db.Flush(t.Context()))
		w.publish()
		r := openTestReader(t, b, ReaderOptions{})
		mem := vfs.NewMem()
		mustNil(t, r.Warm(t.Context(), "new", mem))
		if earlier {
			r = openTestReader(t, b, ReaderOptions{}) // it has checked no file
		}
		names, err := mem.List("new")
		mustNil(t, err)
		n := 0
		for _, name := range names {
			if kind, _, ok := base.ParseFileName(name); !ok || kind != base.FileTable {
				continue
			}
			switch n++; {
			case earlier:
				remotetest.ChangeFile(t, mem, "new/"+name, func(b []byte) []byte { b[len(b)/3] ^= 1; return b })
			case n%2 == 0:
				mustNil(t, mem.Remove("new/"+name))
			default:
				remotetest.ChangeFile(t, mem, "new/"+name, func(b []byte) []byte { return b[:len(b)-1] })
			}
		}
		if n < 2 {
			t.Fatalf("%d tables: the test shows nothing", n)
		}
		next, err := r.Promote(t.Context(), "new", manual(mem))
		mustNil(t, err)
		w.check(next.DB(), shale.ShippingOf(w.db).Position().LastSeq)
		mustNil(t, next.DB().Verify(t.Context()))
		mustNil(t, next.Close())
		_ = w.s.Close() // it is fenced
	}
}

// TestWarmth_OtherTable asks for a table whose number, and so whose path, another one had when it was fetched.
func TestWarmth_OtherTable(t *testing.T) {
	var w warmth
	fetched := manifest.Table{Num: 7, Size: 1000, Checksum: 1}
	w.add("new/000007.sst", &fetched)
	if !w.has("new/000007.sst", &fetched) {
		t.Error("the table that was fetched is not known")
	}
	for what, table := range map[string]manifest.Table{
		"with other bytes": {Num: 7, Size: 1000, Checksum: 2},
		"longer":           {Num: 7, Size: 1001, Checksum: 1},
	} {
		if w.has("new/000007.sst", &table) {
			t.Errorf("a table %s is taken for the one that was fetched", what)
		}
	}
	if w.has("other/000007.sst", &fetched) {
		t.Error("a table in another directory is taken for the one that was fetched")
	}
	w.clear("new")
	if w.has("new/000007.sst", &fetched) {
		t.Error("a table is known in a directory that was cleared")
	}
}

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestReader_BesideWriter reads while a writer writes, ships and publishes. Each commit sets all keys to its number, so
// a state that is no prefix of the commits has different values.
func TestReader_BesideWriter(t *testing.T) {
	testenv.CheckLeaks(t)
	b := NewMem()
	w := startWriter(t, b, 1, shale.Options{})
	w.publish()
	const keys, commits = 40, 200
	wake := make(chan struct{})
	r := openTestReader(t, b, ReaderOptions{Wake: wake, Interval: time.Millisecond})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			last := 0
			for {
				select {
				case <-done:
					return
				default:
				}
				n, values := 0, make(map[string]bool)
				for e, err := range r.Scan(shale.Range{}) {
					if err != nil {
						t.Error(err)
						return
					}
					n++
					values[string(e.Value[:6])] = true
				}
				if n != 0 && n != keys || len(values) > 1 {
					t.Errorf("a scan shows %d keys with %d values", n, len(values))
					return
				}
				for v := range values {
					var now int
					if _, err := fmt.Sscan(v, &now); err != nil || now < last {
						t.Errorf("a scan shows commit %d after %d, %v", now, last, err)
					}
					last = now
				}
			}
		})
	}
	for i := range commits {
		changes := make(map[string][]byte)
		for k := range keys {
			changes[fmt.Sprintf("key%03d", k)] = append(fmt.Appendf(nil, "%6d", i), bytes.Repeat([]byte{'x'}, 50)...)
		}
		w.commit(changes)
		switch {
		case i%50 == 49:
			w.publish()
		case i%3 == 0:
			w.ship()
		}
		if i%100 == 99 {
			w.ship()
			seq := shale.ShippingOf(w.db).Position().LastSeq
			select {
			case wake <- struct{}{}:
			case <-time.After(time.Second):
			}
			mustNil(t, r.WaitFor(t.Context(), seq))
			if v, err := r.Get([]byte("key007")); err != nil || !bytes.Equal(v, changes["key007"]) {
				t.Errorf("the reader does not find what it has waited for: %.10q, %v", v, err)
			}
		}
	}
	close(done)
	wg.Wait()
	mustNil(t, r.Close())
	mustNil(t, w.db.Close())
}

// TestReader_GapWaits ships writes behind an ingestion whose tables are in no step yet. The reader shows neither, until
// the step comes.
func TestReader_GapWaits(t *testing.T) {
	b := NewMem()
	w := startWriter(t, b, 1, shale.Options{})
	w.commit(map[string][]byte{"key001": []byte("old")})
	w.publish()
	r := openTestReader(t, b, ReaderOptions{})
	before := r.Seq()
	w.ingest()
	w.commit(map[string][]byte{"key001": []byte("new")})
	w.ship()
	for range 2 {
		mustNil(t, r.Refresh(t.Context()))
		if l := r.Lag(); r.Seq() != before || l.Seq == 0 {
			t.Errorf("the reader shows %d with a lag of %d, want %d and some lag", r.Seq(), l.Seq, before)
		}
		w.check(r, before)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	last := shale.ShippingOf(w.db).Position().LastSeq
	if err := r.WaitFor(ctx, last); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitFor of what can't be shown: %v", err)
	}
	w.publish()
	mustNil(t, r.Refresh(t.Context()))
	if l := r.Lag(); r.Seq() != last || l.Seq != 0 {
		t.Errorf("after the step the reader shows %d with a lag of %d, want %d", r.Seq(), l.Seq, last)
	}
	w.check(r, last)
}

// TestReader_Requests counts what a look costs if there is nothing new: two GETs.
func TestReader_Requests(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 1, shale.Options{})
	w.commit(w.randomChanges())
	w.publish()
	r := openTestReader(t, b, ReaderOptions{})
	mustNil(t, r.Refresh(t.Context()))
	before := b.Count("", "")
	for range 10 {
		mustNil(t, r.Refresh(t.Context()))
	}
	if n := b.Count("", "") - before; n != 20 {
		t.Errorf("10 looks made %d requests, want 20", n)
	}
}

// TestReader_BehindFloor lets a reader without pins fall behind until its state is collected: reads go on from
// the newest state, and what shows the old one gets ErrSnapshotGone.
func TestReader_BehindFloor(t *testing.T) {
	b := NewMem()
	w := startWriter(t, b, 3, shale.Options{})
	w.bulk()
	w.publish()
	r := openTestReader(t, b, ReaderOptions{NoPins: true, CacheBytes: -1, Store: shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}}})
	old, err := r.Snapshot(t.Context())
	mustNil(t, err)
	defer old.Close()
	w.bulk()
	mustNil(t, w.db.Compact(t.Context(), shale.Range{}))
	w.publish()
	w.collect()
	last := shale.ShippingOf(w.db).Position().LastSeq
	for _, err := range old.Scan(shale.Range{}) {
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrSnapshotGone) {
			t.Errorf("a scan of the old state: %v, want ErrSnapshotGone", err)
		}
		old = nil
	}
	if old != nil {
		t.Fatal("the old state can be read: the test shows nothing")
	}
	for k := range 300 {
		key := fmt.Appendf(nil, "key%03d", k)
		if v, err := r.Get(key); (err == nil) != (w.modelAt(last)[string(key)] != nil) || err != nil && err != shale.ErrNotFound {
			t.Fatalf("Get(%s) = %.10q, %v", key, v, err)
		}
	}
	w.check(r, last)
}

// TestReader_FlipInTail changes a byte of the tail of a table when it is fetched the first time, each time another one. The
// tail begins in the midst of a block of data, whose beginning is not in it, and is fetched again all the same.
func TestReader_FlipInTail(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 6, shale.Options{MemtableSize: 1 << 20})
	changes := make(map[string][]byte)
	for k := range 20 {
		v := make([]byte, 6000)
		for i := range v {
			v[i] = byte(w.random.Uint32())
		}
		changes[fmt.Sprintf("key%03d", k)] = v
	}
	w.commit(changes)
	mustNil(t, w.db.Flush(t.Context()))
	w.publish()
	flips := 0
	for back := int64(1); ; back += 500 {
		var flipped atomic.Bool
		b.OnAnswer(func(name string, p []byte, off int64) {
			if n := int64(len(p)); remotetest.FolderOf(name) == object.TableFolder && off < 0 && back <= n && flipped.CompareAndSwap(false, true) {
				p[n-back] ^= 1
			}
		})
		r := openTestReader(t, b, ReaderOptions{CacheBytes: -1, Store: shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}}})
		w.check(r, r.Seq())
		mustNil(t, r.Close())
		if !flipped.Load() {
			break
		}
		flips++
	}
	if flips < 20 {
		t.Errorf("%d bytes were changed: the test shows little", flips)
	}
}

// TestReader_BucketAway takes the bucket away: absent keys and what is cached are answered, other reads give the
// error, and all goes on when it is back.
func TestReader_BucketAway(t *testing.T) {
	testenv.CheckLeaks(t)
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 7, shale.Options{})
	w.bulk()
	w.publish()
	var mu sync.Mutex
	var events []EventKind
	r := openTestReader(t, b, ReaderOptions{CacheBytes: -1, Patience: 100 * time.Millisecond,
		Store: shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}}, OnEvent: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.Kind)
		}})
	errAway := errors.New("no route to host")
	b.HookReads(func(string) error { return errAway })
	failed := 0
	model := w.modelAt(r.Seq())
	for k := range 30 {
		key := fmt.Sprintf("key%03d", k)
		v, err := r.Get([]byte(key))
		switch {
		case errors.Is(err, errAway):
			failed++
		case model[key] == nil && err == shale.ErrNotFound, model[key] != nil && bytes.Equal(v, model[key]):
		default:
			t.Errorf("Get(%s) = %.10q, %v", key, v, err)
		}
	}
	if failed == 0 {
		t.Error("no read failed: the test shows nothing")
	}
	for range 2 {
		if err := r.Refresh(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("Refresh: %v", err)
		}
	}
	if l := r.Lag(); !errors.Is(l.Err, errAway) || l.Time <= 0 {
		t.Errorf("Lag() = %+v", l)
	}
	b.HookReads(nil)
	w.commit(w.randomChanges())
	w.publish()
	mustNil(t, r.Refresh(t.Context()))
	w.check(r, shale.ShippingOf(w.db).Position().LastSeq)
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(events) != fmt.Sprint([]EventKind{EventAway, EventBack}) {
		t.Errorf("events %v, want one that the bucket is away and one that it is back", events)
	}
}

// TestReader_Pins looks at the pins of a reader: its own, those of snapshots, and after renewals and Close.
func TestReader_Pins(t *testing.T) {
	b := NewMem()
	w := startWriter(t, b, 8, shale.Options{})
	w.commit(w.randomChanges())
	w.publish()
	steps := func() string {
		pins, err := chain.ListPins(t.Context(), b, w.s.id)
		mustNil(t, err)
		var n []uint64
		for _, p := range pins {
			n = append(n, p.N)
			if p.Owner != "test" || p.Expires.IsZero() {
				t.Errorf("pin %+v", p)
			}
		}
		return fmt.Sprint(n)
	}
	is := func(want ...uint64) {
		t.Helper()
		if got := steps(); got != fmt.Sprint(want) {
			t.Errorf("pins of the steps %s, want %v", got, want)
		}
	}
	r := openTestReader(t, b, ReaderOptions{Owner: "test"})
	is(3)
	first, err := r.Snapshot(t.Context())
	mustNil(t, err)
	w.commit(w.randomChanges())
	w.publish()
	mustNil(t, r.Refresh(t.Context()))
	is(3)
	second, err := r.Snapshot(t.Context())
	mustNil(t, err)
	third, err := r.Snapshot(t.Context())
	mustNil(t, err)
	if got := steps(); len(got) != len("[3 4]") {
		t.Errorf("pins of the steps %s, want 3 and 4", got)
	}
	now := time.Now()
	r.session.now = func() time.Time { return now.Add(SessionPin / 2) }
	mustNil(t, r.renew())
	pins, err := chain.ListPins(t.Context(), b, w.s.id)
	mustNil(t, err)
	for _, p := range pins {
		if p.Expires.Before(now.Add(SessionPin * 5 / 4)) {
			t.Errorf("pin %s of step %d was not renewed", p.Label, p.N)
		}
	}
	if len(pins) != 2 {
		t.Errorf("%d pins after the renewal", len(pins))
	}
	mustNil(t, first.Close())
	is(4)
	mustNil(t, second.Close())
	mustNil(t, third.Close())
	is(4)
	if err := third.Close(); err != shale.ErrClosed {
		t.Errorf("a second Close: %v", err)
	}
	mustNil(t, r.Close())
	is()
	if err := r.Close(); err != shale.ErrClosed {
		t.Errorf("a second Close: %v", err)
	}
}

// TestReader_NamedPin reads at a pin while the writer goes on and collects: the reader never moves.
func TestReader_NamedPin(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 9, shale.Options{})
	for range 40 {
		w.commit(w.randomChanges())
	}
	w.publish()
	seq := shale.ShippingOf(w.db).Position().LastSeq
	_, err := chain.Pin(t.Context(), b, w.s.id, "before", chain.PinOptions{})
	mustNil(t, err)
	for range 40 {
		w.commit(w.randomChanges())
		w.ship()
	}
	w.publish()
	r := openTestReader(t, b, ReaderOptions{Pin: "before"})
	mustNil(t, r.Refresh(t.Context()))
	if err := r.WaitFor(t.Context(), seq+1); err == nil {
		t.Error("WaitFor of what is behind the pin succeeds")
	}
	w.check(r, seq)
	if l := r.Lag(); l.Time != 0 || l.Seq != 0 {
		t.Errorf("Lag() = %+v", l)
	}
	if _, err := OpenReader(t.Context(), b, &ReaderOptions{Pin: "after"}); err == nil {
		t.Error("a reader at a pin that is not there")
	}
}

// TestReader_Directory opens a reader again whose copies are in a directory: the tails of tables are not asked for.
func TestReader_Directory(t *testing.T) {
	testenv.CheckLeaks(t)
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 10, shale.Options{})
	w.bulk()
	w.publish()
	seq := shale.ShippingOf(w.db).Position().LastSeq
	dir := t.TempDir()
	for round := range 3 {
		var r *Reader
		gets, _ := b.During(func() {
			r = openTestReader(t, b, ReaderOptions{Dir: dir, CacheBytes: 1 << 20, Store: shale.Options{CacheSize: -1}})
			if _, err := OpenReader(t.Context(), b, &ReaderOptions{Dir: dir}); !errors.Is(err, shale.ErrLocked) {
				t.Errorf("two readers in one directory: %v", err)
			}
		})
		w.check(r, seq)
		mustNil(t, r.Close())
		if round == 0 && gets == 0 || round > 0 && gets > 0 {
			t.Errorf("round %d: %d GETs of tables", round, gets)
		}
	}
}

// TestReader_NothingThere opens readers of buckets without a store, and without a step.
func TestReader_NothingThere(t *testing.T) {
	testenv.CheckLeaks(t)
	b := NewMem()
	if _, err := OpenReader(t.Context(), b, nil); err == nil {
		t.Error("a reader of an empty bucket")
	}
	id, err := (&object.Identity{StoreID: 1, Created: time.Now()}).Encode(nil)
	mustNil(t, err)
	mustNil(t, PutObject(t.Context(), b, IdentityName, id, true))
	if _, err := OpenReader(t.Context(), b, nil); err == nil {
		t.Error("a reader of a bucket without a step")
	}
}

// TestReader_CatchesUp has a reader that is a thousand segments behind, over a line with 20 ms for each request. It must not
// take 20 ms for each segment.
func TestReader_CatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := remotetest.NewFake(NewMem())
		s, err := Open(t.Context(), "db", b.Bucket, manual(vfs.NewMem()))
		mustNil(t, err)
		defer s.Close()
		model := map[string]string{}
		put(t, s, model, "a", 1)
		mustNil(t, s.Publish(t.Context()))
		r, err := OpenReader(t.Context(), b, &ReaderOptions{Interval: -1})
		mustNil(t, err)
		defer r.Close()
		for i := range 1000 {
			put(t, s, model, fmt.Sprint("b", i%50), 1)
			if i%250 == 200 {
				mustNil(t, s.DB().Flush(t.Context())) // another log
			}
			mustNil(t, s.Ship(t.Context()))
		}
		b.Hook(func(string, string) error { time.Sleep(20 * time.Millisecond); return nil }, nil)
		begun := time.Now()
		mustNil(t, r.Refresh(t.Context()))
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("1000 segments took %v", took)
		}
		if got := r.Seq(); got != shale.ShippingOf(s.DB()).Position().LastSeq {
			t.Errorf("up to %d of %d is shown", got, shale.ShippingOf(s.DB()).Position().LastSeq)
		}
		sameMap(t, "the reader", contents(t, r), model)
	})
}

// quiet returns options whose events must not speak of damage.
func quiet(t *testing.T) shale.Options {
	return shale.Options{OnEvent: func(e shale.Event) {
		if e.Kind == shale.EventCorruption {
			t.Errorf("the reader calls a whole store damaged: %v", e.Err)
		}
	}}
}

// TestReader_DuringFirstUpload reads a bucket that has logs, and not yet the tables with what was written before them. A
// reader shows nothing until a step says that they are there, also one that was open before.
func TestReader_DuringFirstUpload(t *testing.T) {
	mem, b := vfs.NewMem(), remotetest.NewFake(NewMem())
	model := manyTables(t, mem, 20)
	s := openStore(t, "db", b, manual(mem))
	readers := []*Reader{openTestReader(t, b, ReaderOptions{Store: quiet(t)})}
	b.Refuse("put", object.TableFolder)
	for i := range 3 {
		put(t, s, model, fmt.Sprint("beside", i), 5)
		if i == 1 {
			mustNil(t, s.DB().Flush(t.Context())) // another log
		}
		if err := s.Ship(t.Context()); err == nil { // the logs are shipped, and the tables that they need are not
			t.Fatal("the tables are there already")
		}
		readers = append(readers, openTestReader(t, b, ReaderOptions{Store: quiet(t)}))
		for _, r := range readers {
			mustNil(t, r.Refresh(t.Context()))
			if got := contents(t, r); len(got) > 0 || r.Lag().Seq == 0 {
				t.Errorf("a reader shows %d keys with a lag of %d", len(got), r.Lag().Seq)
			}
		}
	}
	b.Hook(nil, nil)
	mustNil(t, s.Publish(t.Context()))
	for _, r := range readers {
		mustNil(t, r.Refresh(t.Context()))
		sameMap(t, "after the first step", contents(t, r), model)
	}
}

// TestReader_AfterACrashBehindARotation reads a store whose writer died when it had begun another log of which nothing was
// shipped. The next writer's logs name that one. A reader waits for the step that has its writes in tables.
func TestReader_AfterACrashBehindARotation(t *testing.T) {
	for _, unshipped := range []int{0, 1, 2} {
		mem, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		s := openStore(t, "db", b, manual(mem))
		put(t, s, model, "first", 5)
		mustNil(t, s.Publish(t.Context()))
		put(t, s, model, "second", 5)
		mustNil(t, s.Ship(t.Context()))
		shown := maps.Clone(model)
		r := openTestReader(t, b, ReaderOptions{Store: quiet(t)})
		sameMap(t, "before", contents(t, r), shown)
		mustNil(t, s.DB().Flush(t.Context())) // begins another log
		for i := range unshipped {
			put(t, s, model, fmt.Sprint("unshipped", i), 1)
			mustNil(t, s.DB().Flush(t.Context()))
		}
		mustNil(t, s.DB().Sync())
		mem = copyOf(mem)
		next := openStore(t, "db", b, manual(mem))
		put(t, next, model, "third", 5)
		mustNil(t, next.Ship(t.Context()))
		for _, r := range []*Reader{r, openTestReader(t, b, ReaderOptions{Store: quiet(t)})} {
			mustNil(t, r.Refresh(t.Context()))
			if got := contents(t, r); len(got) != len(shown) && len(got) != len(model) {
				t.Errorf("a reader shows %d keys, want %d or %d", len(got), len(shown), len(model))
			}
		}
		mustNil(t, next.Publish(t.Context()))
		for _, r := range []*Reader{r, openTestReader(t, b, ReaderOptions{Store: quiet(t)})} {
			mustNil(t, r.Refresh(t.Context()))
			sameMap(t, "after the step", contents(t, r), model)
		}
	}
}

// TestReader_AfterLostShipping reads a store whose writers die with writes that they have not shipped, one after the other,
// and ship a log each before they publish a step. Until that step comes, everybody sees what was there before the first of
// these crashes, and nobody calls whole objects damaged.
func TestReader_AfterLostShipping(t *testing.T) {
	for _, lost := range []string{"the end of a log", "a seal and a log", "a log"} {
		for more := range 3 {
			what := fmt.Sprintf("%s is lost, and in %d more lives", lost, more)
			mem, b, model := vfs.NewMem(), NewMem(), map[string]string{}
			s := openStore(t, "db", b, manual(mem))
			put(t, s, model, "first", 5)
			mustNil(t, s.Publish(t.Context()))
			put(t, s, model, "second", 5)
			mustNil(t, s.Ship(t.Context()))
			shown := maps.Clone(model)
			r := openTestReader(t, b, ReaderOptions{Store: quiet(t)})
			if lost != "the end of a log" {
				mustNil(t, s.DB().Flush(t.Context())) // begins another log
			}
			if lost == "a log" {
				mustNil(t, s.shipAll(t.Context(), s.bucket))
			}
			for n := range 1 + more {
				put(t, s, model, fmt.Sprint("unshipped", n), 5)
				mustNil(t, s.DB().Sync())
				mem = copyOf(mem)
				s = openStore(t, "db", b, manual(mem))
				put(t, s, model, fmt.Sprint("shipped", n), 5)
				mustNil(t, s.shipAll(t.Context(), s.bucket))

				for _, r := range []*Reader{r, openTestReader(t, b, ReaderOptions{Store: quiet(t)})} {
					mustNil(t, r.Refresh(t.Context()))
					sameMap(t, what, contents(t, r), shown)
					if seq := snapshotSeq(t, r); seq != 10 || r.Seq() != 10 {
						t.Errorf("%s: a snapshot is at %d, and the reader at %d", what, seq, r.Seq())
					}
				}
				restored := vfs.NewMem()
				_, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: restored})
				mustNil(t, err)
				db, err := shale.Open("db", &shale.Options{FS: restored})
				mustNil(t, err)
				sameMap(t, what+", restored", contents(t, db), shown)
				mustNil(t, db.Close())
				report, err := Verify(t.Context(), b, true)
				if err != nil || len(report.Findings) > 0 {
					t.Errorf("%s: Verify = %+v, %v", what, report, err)
				}
			}
			mustNil(t, s.Publish(t.Context()))
			for _, r := range []*Reader{r, openTestReader(t, b, ReaderOptions{Store: quiet(t)})} {
				mustNil(t, r.Refresh(t.Context()))
				sameMap(t, what+", after the step", contents(t, r), model)
			}
		}
	}
}

// snapshotSeq returns the number of a snapshot of what the Reader shows.
func snapshotSeq(t *testing.T, r *Reader) uint64 {
	t.Helper()
	s, err := r.Snapshot(t.Context())
	mustNil(t, err)
	defer s.Close()
	return s.Seq()
}

// TestReader_AfterALostSeal reads a store whose writer dies when it has shipped all that is written, and not the seal of its
// log. The next one ships, closes, and publishes no tables. A reader shows what a restore has: nothing is missing in between.
func TestReader_AfterALostSeal(t *testing.T) {
	mem, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	faulty := faultfs.New(mem, nil)
	s := openStore(t, "db", b, manual(faulty))
	put(t, s, model, "first", 5)
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	put(t, s, model, "second", 5)
	mustNil(t, s.Ship(t.Context()))
	before := openTestReader(t, b, ReaderOptions{Store: quiet(t)})
	var died *vfs.Mem
	faulty.Inject(func(op vfs.Op, name string, _ int64) error {
		if died == nil && op == vfs.OpCreate && strings.HasSuffix(name, ".sst") {
			died = copyOf(mem) // the next log has begun, and there is no table yet
		}
		if died != nil {
			return syscall.EIO
		}
		return nil
	})
	if err := s.DB().Flush(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Flush = %v", err)
	}
	s = openStore(t, "db", b, manual(died))
	for i := range 3 {
		put(t, s, model, fmt.Sprint("third", i), 5)
		mustNil(t, s.Ship(t.Context()))
		if i == 2 {
			mustNil(t, s.Close())
		}
		for _, r := range []*Reader{before, openTestReader(t, b, ReaderOptions{Store: quiet(t)})} {
			mustNil(t, r.Refresh(t.Context()))
			sameMap(t, "after the crash", contents(t, r), model)
		}
	}
	s = openStore(t, "db", b, manual(died))
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, before.Refresh(t.Context()))
	sameMap(t, "after the step", contents(t, before), model)
}

// TestReader_MaxLogs ships for long without a step. Readers stop before they have more than MaxLogs in memory, say so, and
// go on with the next step, also those that are opened meanwhile.
func TestReader_MaxLogs(t *testing.T) {
	const most = 256 << 10
	mem, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(mem))
	put(t, s, model, "first", 5)
	mustNil(t, s.Publish(t.Context()))
	readers := []*Reader{openTestReader(t, b, ReaderOptions{Store: quiet(t), MaxLogs: most})}
	value := strings.Repeat("v", 1000)
	var held, shipped int64
	for i := range 100 {
		for j := range 10 {
			key := fmt.Sprintf("many%03d.%d", i, j)
			mustNil(t, s.DB().Put([]byte(key), []byte(value)))
			model[key] = value
			shipped += 1000
		}
		mustNil(t, s.Ship(t.Context()))
		if i == 90 {
			readers = append(readers, openTestReader(t, b, ReaderOptions{Store: quiet(t), MaxLogs: most}))
		}
		for _, r := range readers {
			if err := r.Refresh(t.Context()); err != nil && !errors.Is(err, errManyLogs) {
				t.Fatal(err)
			}
			size := int64(0)
			for _, h := range r.follow.held {
				size += int64(len(h.body))
			}
			names, err := r.mem.List(followDir)
			mustNil(t, err)
			for _, name := range names {
				info, err := r.mem.Stat(followDir + "/" + name)
				mustNil(t, err)
				size += info.Size
			}
			held = max(held, size)
		}
	}
	for _, r := range readers {
		if l := r.Lag(); !errors.Is(l.Err, errManyLogs) || l.Seq == 0 {
			t.Errorf("the lag is %+v", l)
		}
		if got := contents(t, r); len(got) < 100 || len(got) >= len(model) {
			t.Errorf("a reader shows %d of %d keys", len(got), len(model))
		}
	}
	if t.Logf("%d bytes of files at most, %d were shipped", held, shipped); held > 2*most {
		t.Errorf("more than twice MaxLogs")
	}
	mustNil(t, s.Publish(t.Context()))
	for _, r := range readers {
		mustNil(t, r.Refresh(t.Context()))
		sameMap(t, "after the step", contents(t, r), model)
		if l := r.Lag(); l.Err != nil || l.Seq != 0 {
			t.Errorf("the lag is %+v", l)
		}
	}
}

// TestReader_AroundATable opens a bucket in which a table of the first upload, which all states need, is missing or
// damaged. The reader shows the newest state and follows the writer; what needs the table fails and names it. When the
// object is mended, all is there again.
func TestReader_AroundATable(t *testing.T) {
	for what, damage := range map[string]func(object []byte) []byte{
		"missing":   nil,
		"footer":    func(o []byte) []byte { o[len(o)-20]++; return o },
		"index":     func(o []byte) []byte { clear(o[len(o)/2:]); return o },
		"truncated": func(o []byte) []byte { return o[:len(o)/3] },
	} {
		for _, dir := range []string{"", "copies"} {
			for _, pin := range []string{"", "here"} {
				t.Run(what+" "+dir+pin, func(t *testing.T) { aroundATable(t, damage, dir, pin) })
			}
		}
	}
}

func aroundATable(t *testing.T, damage func(object []byte) []byte, dir, pin string) {
	mem, b := vfs.NewMem(), NewMem()
	model := manyTables(t, mem, 20)
	s := openStore(t, "db", b, manual(mem))
	put(t, s, model, "x", 5)
	mustNil(t, s.Publish(t.Context()))
	if pin != "" {
		_, err := s.Pin(t.Context(), pin, PinOptions{})
		mustNil(t, err)
	}
	put(t, s, model, "z", 1) // behind the state with the pin
	mustNil(t, s.Ship(t.Context()))
	name := remotetest.NamesOf(t, b, object.TableFolder)[3]
	object, err := ReadObject(t.Context(), b, name, 1<<20)
	mustNil(t, err)
	mustNil(t, b.Delete(t.Context(), name))
	if damage != nil {
		mustNil(t, PutObject(t.Context(), b, name, damage(slices.Clone(object)), true))
	}
	r := openTestReader(t, b, ReaderOptions{Interval: -1, FS: vfs.NewMem(), Dir: dir, Pin: pin, Store: shale.Options{OnEvent: func(shale.Event) {}}})
	isLost := func(err error) bool {
		var c *shale.CorruptionError
		return errors.As(err, &c) && c.File == name
	}
	look := func() (lost int) {
		for k, v := range model {
			if pin != "" && strings.HasPrefix(k, "z") {
				continue
			}
			switch got, err := r.Get([]byte(k)); {
			case isLost(err):
				lost++
			case err != nil || string(got) != v:
				t.Fatalf("Get(%s) = %.20q, %v", k, got, err)
			}
		}
		if _, err := r.Get([]byte("y")); err != shale.ErrNotFound {
			t.Errorf("Get of an absent key: %v", err)
		}
		return lost
	}
	if lost := look(); lost == 0 || lost > 16 {
		t.Errorf("%d of %d keys can't be read", lost, len(model))
	}
	if !isLost(r.Lag().Err) {
		t.Errorf("the lag names %v", r.Lag().Err)
	}
	n, failed := 0, error(nil)
	for _, err := range r.Scan(shale.Range{}) {
		if failed = err; err == nil {
			n++
		}
	}
	if n == 0 || !isLost(failed) {
		t.Errorf("a scan shows %d entries, and then %v", n, failed)
	}
	keys := [][]byte{[]byte("key000000"), []byte("x0000"), []byte("y")}
	mustNil(t, r.GetMany(keys, func(int, []byte, bool) error { return nil }))
	snap, err := r.Snapshot(t.Context())
	mustNil(t, err)
	defer snap.Close()
	if pin != "" {
		return // it follows nobody
	}
	put(t, s, model, "w", 3)
	mustNil(t, s.Publish(t.Context()))
	put(t, s, model, "v", 3)
	mustNil(t, s.Ship(t.Context()))
	mustNil(t, r.Refresh(t.Context()))
	if lost := look(); lost == 0 || !isLost(r.Lag().Err) {
		t.Errorf("after a step %d keys can't be read; %v", lost, r.Lag().Err)
	}
	mustNil(t, PutObject(t.Context(), b, name, object, false))
	mustNil(t, r.Refresh(t.Context()))
	if lost := look(); lost > 0 || r.Lag().Err != nil {
		t.Errorf("of the mended table %d keys can't be read; %v", lost, r.Lag().Err)
	}
	sameMap(t, "mended", contents(t, r), model)
	if _, err := snap.Get([]byte("x0000")); err != nil && err != shale.ErrNotFound {
		t.Errorf("an older snapshot: %v", err)
	}
}

// TestReader_SegmentMissing takes a segment away that the newest step names: the error names it, and readers show what
// is before it.
func TestReader_SegmentMissing(t *testing.T) {
	b := NewMem()
	w := startWriter(t, b, 12, shale.Options{})
	w.commit(w.randomChanges())
	w.publish()
	r := openTestReader(t, b, ReaderOptions{})
	at := w.s.ship.at
	w.commit(w.randomChanges())
	w.publish()
	mustNil(t, b.Delete(t.Context(), at.String()))
	late := openTestReader(t, b, ReaderOptions{})
	for _, err := range []error{late.Lag().Err, late.Refresh(t.Context()), r.Refresh(t.Context())} {
		var c *shale.CorruptionError
		if !errors.As(err, &c) || c.File != at.String() {
			t.Errorf("without a segment: %v, want a CorruptionError of %s", err, at)
		}
	}
	w.check(r, r.Seq())
	w.check(late, r.Seq())
}

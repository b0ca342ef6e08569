package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/logset"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A feedCopy is a store that follows another one by Reader.Changes.
type feedCopy struct {
	t    testing.TB
	db   *shale.DB
	last uint64 // what has this number or a lower one is in it

	newer   uint64 // up to this number keys of an ingestion may be newer than the others
	changes int
	gone    int
}

// newFeedCopy returns a copy of an empty store.
func newFeedCopy(t testing.TB) *feedCopy {
	t.Helper()
	db, err := shale.Open("copy", &shale.Options{FS: vfs.NewMem(), Durability: shale.SyncManual, OnEvent: func(shale.Event) {}})
	mustNil(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return &feedCopy{t: t, db: db}
}

// apply puts a change into the copy.
func (c *feedCopy) apply(r *Reader, change shale.Change) {
	c.t.Helper()
	if change.Seq <= c.last || change.Last < c.last {
		c.t.Fatalf("numbers %d to %d come after %d", change.Seq, change.Last, c.last)
	}
	var b shale.Batch
	for op := range change.Ops() {
		mustNil(c.t, b.Add(op))
	}
	mustNil(c.t, c.db.Write(context.Background(), &b))
	c.last = change.Last
	c.changes++
	if change.Ingested() {
		c.newer = r.Seq()
	}
}

// follow applies what the Reader shows, or only so many changes, and compares the copy after each with what check has for its
// number. It returns nil when the copy has all, errWait if no more comes, or the error of the feed.
func (c *feedCopy) follow(r *Reader, most int, check func(seq uint64, copied *shale.DB)) error {
	c.t.Helper()
	if c.last == r.Seq() {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	for change, err := range r.Changes(ctx, c.last) {
		if errors.Is(err, context.DeadlineExceeded) {
			return errWait
		}
		if err != nil {
			return err
		}
		c.apply(r, change)
		if c.last >= c.newer && check != nil {
			check(c.last, c.db)
		}
		if most--; most == 0 || c.last >= r.Seq() {
			return nil
		}
	}
	c.t.Fatal("the feed has ended without an error")
	return nil
}

// restart makes the copy one of what the Reader shows, as a program does whose changes are gone.
func (c *feedCopy) restart(r *Reader) {
	c.t.Helper()
	s, err := r.Snapshot(c.t.Context())
	mustNil(c.t, err)
	defer s.Close()
	var b shale.Batch
	mustNil(c.t, b.DeleteRange(nil, nil))
	for e, err := range s.Scan(shale.Range{}) {
		mustNil(c.t, err)
		mustNil(c.t, b.Add(shale.Op{Kind: shale.OpPut, Key: e.Key, Value: e.Value, ExpiresAt: e.ExpiresAt}))
	}
	mustNil(c.t, c.db.Write(context.Background(), &b))
	c.last, c.newer = s.Seq(), 0
	c.gone++
}

// isGone returns the first number there is, if err says that changes are gone.
func isGone(err error) (first uint64, gone bool) {
	var e *logset.GoneError
	if !errors.Is(err, shale.ErrChangesGone) || !errors.As(err, &e) {
		return 0, false
	}
	return uint64(e.First), true
}

// A store that follows the bucket of another one by Reader.Changes is equal to it at each number, whatever the other one
// does: it ends and begins again, crashes, and is restored elsewhere. The Readers come and go, too.
func TestReaderChanges_Lives(t *testing.T) {
	testenv.CheckLeaks(t)
	changes, gone := 0, 0
	for seed := range lives(t, 24) {
		seed += 100 * testenv.Seed(t)
		synctest.Test(t, func(t *testing.T) { // a feed that waits costs no time
			c := liveWithAFeed(t, seed)
			changes, gone = changes+c.changes, gone+c.gone
		})
	}
	t.Logf("%d changes came, and %d times they were gone", changes, gone)
	if changes == 0 || gone == 0 && !testing.Short() {
		t.Errorf("%d changes came, and %d times they were gone", changes, gone)
	}
}

// liveWithAFeed is one life of TestReaderChanges_Lives. In each other one nothing is lost, and so no change may be gone.
func liveWithAFeed(t *testing.T, seed uint64) *feedCopy {
	b := NewMem()
	w := startWriter(t, b, seed, shale.Options{Durability: shale.SyncManual})
	loses := seed%2 == 0
	w.commit(w.randomChanges())
	w.publish()
	open := func() *Reader {
		t.Helper()
		return openTestReader(t, b, ReaderOptions{NoPins: w.random.IntN(2) == 0})
	}
	r, c := open(), newFeedCopy(t)
	check := func(seq uint64, copied *shale.DB) {
		t.Helper()
		w.check(copied, seq)
	}
	for range 60 {
		switch n := w.random.IntN(20); {
		case n < 6:
			for range 1 + w.random.IntN(30) {
				w.commit(w.randomChanges())
			}
		case n < 8:
			w.deleteRange()
		case n < 9:
			w.ingest()
		case n < 10:
			key := fmt.Sprintf("key%03d", w.random.IntN(300))
			var batch shale.Batch
			mustNil(t, batch.Add(shale.Op{Kind: shale.OpPut, Key: []byte(key), Value: []byte("expires"), ExpiresAt: time.Now().Add(time.Hour)}))
			mustNil(t, w.db.Write(t.Context(), &batch))
			w.commits = append(w.commits, testCommit{shale.ShippingOf(w.db).Position().LastSeq, map[string][]byte{key: []byte("expires")}})
		case n < 12:
			mustNil(t, w.db.Flush(t.Context()))
		case n < 15:
			w.ship()
		case n < 17:
			w.publish()
		case n == 17 && loses:
			w.collect()
		case n == 18:
			w.again(loses)
		case n == 19:
			mustNil(t, r.Close())
			r = open()
		}
		mustNil(t, r.Refresh(t.Context()))
		most := 1 + w.random.IntN(20)
		if w.random.IntN(2) == 0 {
			most = 1 << 30
		}
		c.followOrRestart(r, most, loses, check)
	}
	w.commit(w.randomChanges())
	w.publish()
	mustNil(t, r.Refresh(t.Context()))
	c.followOrRestart(r, 1<<30, loses, check)
	c.followOrRestart(r, 1<<30, false, check)
	if c.last != r.Seq() || c.last != shale.ShippingOf(w.db).Position().LastSeq {
		t.Fatalf("seed %d: the copy is at %d, the Reader at %d, and the writer at %d", seed, c.last, r.Seq(), shale.ShippingOf(w.db).Position().LastSeq)
	}
	sameEntries(t, c.db, w.db)
	mustNil(t, r.Close())
	return c
}

// followOrRestart is follow. If changes are gone, which they may be, it begins again with a copy.
func (c *feedCopy) followOrRestart(r *Reader, most int, mayBeGone bool, check func(seq uint64, copied *shale.DB)) {
	c.t.Helper()
	err := c.follow(r, most, check)
	first, gone := isGone(err)
	switch {
	case err == nil:
	case err == errWait && r.view.unproven():
	case gone && mayBeGone && first > c.last+1 && first <= r.Seq()+1:
		c.restart(r)
	default:
		c.t.Fatalf("after %d, of %d that are shown: %v", c.last, r.Seq(), err)
	}
}

// again ends the writer and opens the store again: in the same directory, after a crash, or restored into another one. If it
// loses nothing, all that was written is in the bucket before.
func (w *testWriter) again(loses bool) {
	w.t.Helper()
	way := w.random.IntN(3)
	if !loses {
		w.publish()
	}
	if way == 0 {
		mustNil(w.t, w.s.Close())
		w.open()
		return
	}
	fsys := w.o.Store.FS.(*vfs.Mem).Crash(vfs.CrashConfig{})
	if way == 2 {
		w.publish()
		fsys = vfs.NewMem()
		_, err := Restore(w.t.Context(), w.b, "db", At{}, &RestoreOptions{FS: fsys})
		mustNil(w.t, err)
	}
	w.o.Store.FS = fsys
	w.open()
	// What the crash has taken is written by nobody.
	last := shale.ShippingOf(w.db).Position().LastSeq
	for len(w.commits) > 0 && w.commits[len(w.commits)-1].last > last {
		w.commits = w.commits[:len(w.commits)-1]
	}
}

// sameEntries checks that two stores have the same entries, which expire at the same times.
func sameEntries(t testing.TB, a, b shale.Reader) {
	t.Helper()
	type entry struct {
		value   string
		expires time.Time
	}
	all := func(r shale.Reader) map[string]entry {
		m := make(map[string]entry)
		for e, err := range r.Scan(shale.Range{}) {
			mustNil(t, err)
			m[string(e.Key)] = entry{string(e.Value), e.ExpiresAt}
		}
		return m
	}
	if got, want := all(a), all(b); !maps.Equal(got, want) {
		t.Fatalf("the copy has %d entries, want %d: %.300q, want %.300q", len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
	}
}

// Changes that were collected are gone, also for a feed that is about to read them. From the number that the error names,
// there are all.
func TestReaderChanges_Gone(t *testing.T) {
	testenv.CheckLeaks(t)
	b := NewMem()
	w := startWriter(t, b, 1, shale.Options{})
	for range 5 {
		for range 40 {
			w.commit(w.randomChanges())
			w.ship() // more segments than are read ahead
		}
		mustNil(t, w.db.Flush(t.Context()))
	}
	w.publish()
	r := openTestReader(t, b, ReaderOptions{NoPins: true})
	c := newFeedCopy(t)
	n := 0
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for change, err := range r.Changes(ctx, 0) {
		if n++; n == 3 {
			w.commit(w.randomChanges())
			mustNil(t, w.db.Flush(t.Context()))
			w.publish()
			w.collect()
			mustNil(t, r.Refresh(t.Context()))
		}
		if err == nil {
			c.apply(r, change)
			continue
		}
		first, gone := isGone(err)
		if !gone || first <= c.last+1 || c.last == 0 {
			t.Fatalf("after %d the feed ends with %v", c.last, err)
		}
	}
	err := c.follow(r, 1<<30, nil)
	first, gone := isGone(err)
	if !gone || first <= c.last+1 || first > r.Seq() {
		t.Fatalf("after %d: %v", c.last, err)
	}
	c.last = first - 1
	mustNil(t, c.follow(r, 1, nil))
	c.last = first - 2
	if again, gone := isGone(c.follow(r, 1, nil)); !gone || again != first {
		t.Errorf("after %d, the first number there is is %d, %v, want %d", c.last, again, gone, first)
	}
	c.last = r.Seq() + 1
	if err := c.follow(r, 1, nil); !errors.Is(err, shale.ErrReplaced) {
		t.Errorf("after a number that nothing has: %v", err)
	}
}

// What a writer had not shipped when it crashed comes into the bucket in tables only. A feed never passes it by.
func TestReaderChanges_Unshipped(t *testing.T) {
	testenv.CheckLeaks(t)
	b := NewMem()
	w := startWriter(t, b, 3, shale.Options{})
	w.commit(w.randomChanges())
	w.publish()
	r, c := openTestReader(t, b, ReaderOptions{}), newFeedCopy(t)
	mustNil(t, c.follow(r, 1<<30, func(seq uint64, copied *shale.DB) { w.check(copied, seq) }))
	w.commit(w.randomChanges())
	w.o.Store.FS = w.o.Store.FS.(*vfs.Mem).Crash(vfs.CrashConfig{})
	w.open()
	lost := w.commits[len(w.commits)-1].last
	w.commit(w.randomChanges())
	w.publish()
	mustNil(t, r.Refresh(t.Context()))
	first, gone := isGone(c.follow(r, 1<<30, nil))
	if !gone || first != lost+1 {
		t.Fatalf("the first number there is is %d, %v, want %d", first, gone, lost+1)
	}
	c.restart(r)
	w.commit(w.randomChanges())
	w.ship()
	mustNil(t, r.Refresh(t.Context()))
	mustNil(t, c.follow(r, 1<<30, func(seq uint64, copied *shale.DB) { w.check(copied, seq) }))
	sameEntries(t, c.db, w.db)
}

// TestReaderChanges_AnotherPast loses the machine when the bucket has segments that nobody can use, because they are behind an
// ingestion, or a gap, whose tables it lacks. No feed ever passes on a write of them, whenever it looks.
func TestReaderChanges_AnotherPast(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, lost := range []string{"an ingestion", "unshipped writes", "a failed write"} {
		for _, idle := range []string{"no writer", "one that closes", "one that dies"} {
			for mode := range 8 {
				p := past{lost: lost, rotates: mode&1 > 0, early: mode&2 > 0, idle: idle, flushed: mode&4 > 0}
				synctest.Test(t, func(t *testing.T) { anotherPast(t, p) })
			}
		}
	}
}

// A past is one way of TestReaderChanges_AnotherPast.
type past struct {
	lost    string
	rotates bool   // the segments that nobody can use are of two logs
	early   bool   // a feed has looked before
	idle    string // whether a writer that writes nothing comes next
	flushed bool   // tables have all before: the next writer has nothing to flush, and its first log is the current one
}

func anotherPast(t *testing.T, p past) {
	what := fmt.Sprintf("%+v", p)
	fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
	faulty := faultfs.New(fsys, nil)
	s := openStore(t, "db", b, manual(faulty))
	put(t, s, model, "a", 10)
	mustNil(t, s.Publish(t.Context()))
	put(t, s, model, "b", 5)
	if p.flushed {
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
	}
	mustNil(t, s.Ship(t.Context()))
	quiet := ReaderOptions{Store: shale.Options{OnEvent: func(shale.Event) {}}}
	r, c := openTestReader(t, b, quiet), newFeedCopy(t)
	// inModel checks that a copy has nothing of what is lost.
	inModel := func(c *feedCopy) {
		t.Helper()
		for key := range contents(t, c.db) {
			if _, there := model[key]; !there {
				t.Fatalf("%s: the feed has passed on %s, up to %d", what, key, c.last)
			}
		}
	}
	look := func(fresh bool) {
		t.Helper()
		mustNil(t, r.Refresh(t.Context()))
		copies, reader := []*feedCopy{c, newFeedCopy(t)}, r
		if fresh {
			reader = openTestReader(t, b, quiet)
		}
		for _, c := range copies {
			if err := c.follow(reader, 1<<30, nil); err != nil && err != errWait {
				first, gone := isGone(err)
				if !gone || c.last < 15 && first <= 15 || first > reader.Seq()+1 {
					t.Fatalf("%s: after %d of %d: %v", what, c.last, reader.Seq(), err)
				}
				later := newFeedCopy(t)
				later.last = first - 1
				if err := later.follow(reader, 1<<30, nil); err != nil && err != errWait && !errors.Is(err, shale.ErrChangesGone) {
					t.Fatalf("%s: after %d of %d: %v", what, later.last, reader.Seq(), err)
				}
				inModel(later)
				c.restart(reader)
			}
			inModel(c)
		}
	}
	if p.early {
		look(false)
	}
	gone := maps.Clone(model)
	switch p.lost {
	case "an ingestion":
		ingestSorted(t, s, gone, "in", 50)
	case "unshipped writes":
		put(t, s, gone, "unshipped", 5)
		s = openStore(t, "db", b, manual(fsys.Crash(vfs.CrashConfig{})))
	case "a failed write":
		failWrite(t, s, faulty)
	}
	put(t, s, gone, "c", 5)
	if p.rotates {
		mustNil(t, s.DB().Flush(t.Context()))
		put(t, s, gone, "d", 5)
	}
	mustNil(t, s.shipAll(t.Context(), s.bucket))
	look(false)
	other := vfs.NewMem()
	_, err := Restore(t.Context(), b, "db", At{}, &RestoreOptions{FS: other})
	mustNil(t, err)
	successor := openStore(t, "db", b, manual(other))
	look(true)
	mustNil(t, successor.Publish(t.Context()))
	look(true)
	look(false)
	if p.idle != "no writer" { // the successor's successor has the first log
		if p.idle == "one that closes" {
			mustNil(t, successor.Close())
		} else {
			other = other.Crash(vfs.CrashConfig{})
		}
		successor = openStore(t, "db", b, manual(other))
		look(true)
		mustNil(t, successor.Publish(t.Context()))
		look(true)
	}
	put(t, successor, model, "e", 5)
	mustNil(t, successor.Ship(t.Context()))
	look(true)
	look(false)
	mustNil(t, successor.Publish(t.Context()))
	look(true)
	look(false)
	look(false)
	if c.last != r.Seq() {
		t.Errorf("%s: the copy is at %d, the Reader at %d", what, c.last, r.Seq())
	}
	sameMap(t, what, contents(t, c.db), model)
}

// A writer dies when it has ingested, and the next one has nothing to flush, and publishes before it ships a log. A feed
// waits for that log, which says that the ingestion is the store's past.
func TestReaderChanges_WaitsForALog(t *testing.T) {
	testenv.CheckLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		b := NewMem()
		w := startWriter(t, b, 7, shale.Options{})
		w.commit(w.randomChanges())
		mustNil(t, w.db.Flush(t.Context()))
		w.publish()
		w.ingest()
		w.ship()
		w.o.Store.FS = copyOf(w.o.Store.FS.(*vfs.Mem))
		w.open()
		w.publish()
		r, c := openTestReader(t, b, ReaderOptions{}), newFeedCopy(t)
		check := func(seq uint64, copied *shale.DB) { w.check(copied, seq) }
		if err := c.follow(r, 1<<30, check); err != errWait || c.last == 0 || c.last == r.Seq() {
			t.Fatalf("before the log, after %d of %d: %v", c.last, r.Seq(), err)
		}
		w.commit(w.randomChanges())
		w.ship()
		mustNil(t, r.Refresh(t.Context()))
		mustNil(t, c.follow(r, 1<<30, check))
		sameEntries(t, c.db, w.db)
	})
}

// A segment that is missing or damaged ends the feed with its name, unless the log was collected. What comes before it
// is passed on.
func TestReaderChanges_Damage(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, first := range []bool{false, true} {
		for _, flip := range []bool{false, true} {
			b := NewMem()
			w := startWriter(t, b, 4, shale.Options{})
			w.commit(w.randomChanges())
			w.ship()
			before := w.commits[0].last
			if first {
				mustNil(t, w.db.Flush(t.Context()))
				w.commit(w.randomChanges())
				before = w.commits[1].last
				w.ship()
				w.ship()
			}
			at := w.s.ship.at
			w.commit(w.randomChanges())
			w.ship()
			mustNil(t, w.db.Flush(t.Context()))
			w.commit(w.randomChanges())
			w.publish()
			r, c := openTestReader(t, b, ReaderOptions{}), newFeedCopy(t)
			if flip {
				var whole bytes.Buffer
				src := make([]byte, 1<<20)
				n, _ := b.ReadAt(t.Context(), at.String(), src, 0) // the answer's length is all that counts
				whole.Write(src[:n])
				whole.Bytes()[n-1] ^= 1
				mustNil(t, PutObject(t.Context(), b, at.String(), whole.Bytes(), false))
			} else {
				mustNil(t, b.Delete(t.Context(), at.String()))
			}
			var damage *shale.CorruptionError
			if err := c.follow(r, 1<<30, nil); !errors.As(err, &damage) || damage.File != at.String() || c.last != before {
				t.Errorf("first %v, flip %v: after %d the feed ends with %v, want damage of %s after %d", first, flip, c.last, err, at, before)
			}
		}
	}
}

// A feed of a Reader at a pin shows its state, and then nothing.
func TestReaderChanges_AtAPin(t *testing.T) {
	testenv.CheckLeaks(t)
	b := NewMem()
	w := startWriter(t, b, 5, shale.Options{})
	w.commit(w.randomChanges())
	w.publish()
	_, err := w.s.Pin(t.Context(), "p", PinOptions{})
	mustNil(t, err)
	pinned := w.commits[0].last
	w.commit(w.randomChanges())
	w.publish()
	r, c := openTestReader(t, b, ReaderOptions{Pin: "p"}), newFeedCopy(t)
	mustNil(t, c.follow(r, 1<<30, func(seq uint64, copied *shale.DB) { w.check(copied, seq) }))
	if c.last != pinned {
		t.Errorf("the feed goes up to %d, want %d", c.last, pinned)
	}
}

// A writer that is opened and closed without a write leaves no log in the bucket. A feed finds the logs before that, and
// takes an ingestion in them that a step has.
func TestReaderChanges_IdleOpens(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, crashes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := NewMem()
			w := startWriter(t, b, 6, shale.Options{})
			for range 3 {
				for range 30 {
					w.commit(w.randomChanges())
				}
				w.ingest()
				w.publish()
				for range 3 {
					if crashes {
						w.o.Store.FS = w.o.Store.FS.(*vfs.Mem).Crash(vfs.CrashConfig{})
					} else {
						mustNil(t, w.s.Close())
					}
					w.open()
				}
				w.publish()
				r, c := openTestReader(t, b, ReaderOptions{}), newFeedCopy(t)
				if err := c.follow(r, 1<<30, func(seq uint64, copied *shale.DB) { w.check(copied, seq) }); err != nil || c.last != r.Seq() {
					t.Fatalf("crashes %v: the feed is at %d of %d: %v", crashes, c.last, r.Seq(), err)
				}
			}
		})
	}
}

// A log that was given up because a sync has failed is passed on up to where the next one goes on.
func TestReaderChanges_Resume(t *testing.T) {
	testenv.CheckLeaks(t)
	faulty := faultfs.New(vfs.NewMem(), nil)
	b, model := NewMem(), map[string]string{}
	s := openStore(t, "db", b, manual(faulty))
	put(t, s, model, "a", 10)
	mustNil(t, s.Publish(t.Context()))
	early := openTestReader(t, b, ReaderOptions{})
	c := newFeedCopy(t)
	mustNil(t, c.follow(early, 5, nil))
	for range 2 {
		put(t, s, model, "b", 10)
		mustNil(t, s.Ship(t.Context()))
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
		put(t, s, model, "c", 10)
		mustNil(t, s.Publish(t.Context()))
	}
	mustNil(t, early.Refresh(t.Context()))
	for _, c := range []*feedCopy{c, newFeedCopy(t)} {
		if err := c.follow(early, 1<<30, nil); err != nil {
			t.Fatalf("after %d of %d: %v", c.last, early.Seq(), err)
		}
		sameMap(t, "the copy", contents(t, c.db), model)
	}
}

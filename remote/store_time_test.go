package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// clocked are options under which all happens by itself, with a small store in memory.
func clocked(fsys vfs.FS) *Options {
	o := manual(fsys)
	o.Ship, o.Publish, o.Flush = 0, 0, 0
	return o
}

// An eventList remembers events.
type eventList struct {
	mu     sync.Mutex
	events []Event
}

func (l *eventList) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// kinds returns the kinds of the events so far, but for steps.
func (l *eventList) kinds() (kinds []EventKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind != EventPublished {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// inTime runs a test under a clock of its own, with a store and its bucket.
func inTime(t *testing.T, change func(*Options), fn func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList)) {
	synctest.Test(t, func(t *testing.T) {
		b, events := remotetest.NewFake(NewMem()), new(eventList)
		o := clocked(vfs.NewMem())
		o.OnEvent = events.add
		if change != nil {
			change(o)
		}
		s, err := Open(t.Context(), "db", b, o)
		mustNil(t, err)
		defer func() {
			if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) && s.Err() == nil {
				t.Error(err)
			}
		}()
		fn(t, s, b, events)
	})
}

// TestStore_Loops checks when what happens, and what an idle store costs: a list of its tables each hour.
func TestStore_Loops(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		time.Sleep(10*time.Minute + 30*time.Second + time.Second/2) // between two steps, and two segments
		begun := b.Count("", "")
		time.Sleep(24 * time.Hour)
		if n := b.Count("", "") - begun; n > 24 { // one list of tables each hour
			t.Errorf("%d calls in an idle day", n)
		}
		model := map[string]string{}
		put(t, s, model, "a", 10)
		puts := b.Count("put", "")
		time.Sleep(1100 * time.Millisecond)
		if n := b.Count("put", "") - puts; n != 1 {
			t.Errorf("%d PUTs in the second after a write, want that of a segment", n)
		}
		got, _ := shippedWrites(t, b.Bucket)
		sameMap(t, "after a second", got, model)
		steps := s.Status().Step
		time.Sleep(time.Minute)
		if now := s.Status(); now.Step != steps+1 || now.Away != nil || now.Err != nil || now.Tables != 0 {
			t.Errorf("a minute later: %+v, want step %d without tables", now, steps+1)
		}
		time.Sleep(17 * time.Minute)
		checkTables(t, b.Bucket, s)
		if now := s.Status(); now.Tables != 1 {
			t.Errorf("the memtable has old writes, but %d tables are published", now.Tables)
		}
		begun = b.Count("", "")
		time.Sleep(24 * time.Hour)
		if n := b.Count("", "") - begun; n > 24 {
			t.Errorf("%d calls in an idle day after that", n)
		}
		// A writer that is always busy makes a request each second, two each minute, and some for logs and
		// tables.
		begun, puts = b.Count("", ""), b.Count("put", "")
		for range 600 {
			put(t, s, model, "b", 1)
			time.Sleep(time.Second)
		}
		if n := b.Count("put", "") - puts; n > 620 {
			t.Errorf("%d PUTs in ten busy minutes", n)
		}
		if n := b.Count("", "") - begun; n > 640 {
			t.Errorf("%d calls in ten busy minutes", n)
		}
	})
}

// TestStore_BucketAway takes the bucket away for ten minutes. Writers do not notice. There is one event
// when it goes and one when it is back, and then all is shipped.
func TestStore_BucketAway(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		time.Sleep(time.Minute)
		away := errors.New("503: slow down")
		b.Hook(func(string, string) error { return away }, nil)
		model := map[string]string{}
		for i := range 600 {
			put(t, s, model, fmt.Sprint("k", i), 1)
			time.Sleep(time.Second)
		}
		if got := events.kinds(); !slices.Equal(got, []EventKind{EventAway}) {
			t.Errorf("events while it is away: %v", got)
		}
		if now := s.Status(); !errors.Is(now.Away, away) || time.Since(now.Since) < 9*time.Minute || now.Lag.Time < 9*time.Minute {
			t.Errorf("status while it is away: %+v", now)
		}
		calls := b.Count("", "")
		time.Sleep(time.Minute)
		if n := b.Count("", "") - calls; n > 100 {
			t.Errorf("%d calls in a minute of a bucket that is away", n)
		}
		b.Hook(nil, nil)
		time.Sleep(2 * time.Minute)
		if got := events.kinds(); !slices.Equal(got, []EventKind{EventAway, EventBack}) {
			t.Errorf("events after it is back: %v", got)
		}
		if d := events.events[len(events.events)-1]; d.Kind == EventBack && d.Duration < 10*time.Minute {
			t.Errorf("it was away for %v", d.Duration)
		}
		got, _ := shippedWrites(t, b.Bucket)
		sameMap(t, "after it is back", got, model)
		if now := s.Status(); now.Away != nil || now.Lag.Time != 0 {
			t.Errorf("status after it is back: %+v", now)
		}
	})
}

// TestStore_WritersWait checks that writers wait as MaxLag says, not before, and no longer.
func TestStore_WritersWait(t *testing.T) {
	inTime(t, func(o *Options) { o.MaxLag = 30 * time.Second }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		time.Sleep(time.Minute)
		b.Hook(func(string, string) error { return errors.New("503") }, nil)
		written := make(chan int, 1000)
		done := make(chan error, 1)
		go func() {
			value := make([]byte, 1000)
			for i := range 100 {
				if err := s.DB().Put(fmt.Append(nil, i), value); err != nil {
					done <- err
					return
				}
				written <- i
				time.Sleep(time.Second)
			}
			done <- nil
		}()
		time.Sleep(10 * time.Minute)
		if n := len(written); n < 27 || n > 33 {
			t.Errorf("%d writes did not wait, want about 30", n)
		}
		if got := events.kinds(); !slices.Contains(got, EventWait) || slices.Contains(got, EventGoOn) {
			t.Errorf("events while the bucket is away: %v", got)
		}
		b.Hook(nil, nil)
		time.Sleep(10 * time.Minute)
		if err := <-done; err != nil || len(written) != 100 {
			t.Errorf("after the bucket is back: %d writes, %v", len(written), err)
		}
		if got := events.kinds(); !slices.Contains(got, EventGoOn) {
			t.Errorf("events after the bucket is back: %v", got)
		}
	})
}

// TestStore_WritersWaitWithoutShip has a store that ships only when it is told to. When its writers wait, it ships
// all the same: nobody else would.
func TestStore_WritersWaitWithoutShip(t *testing.T) {
	inTime(t, func(o *Options) { o.Ship, o.Publish, o.Flush, o.MaxLag = -1, -1, -1, 30*time.Second }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		time.Sleep(time.Hour)
		puts := b.Count("put", "")
		value := make([]byte, 1000)
		for i := range 100 {
			mustNil(t, s.DB().Put(fmt.Append(nil, i), value))
			time.Sleep(time.Second)
		}
		if n := b.Count("put", "") - puts; n < 3 || n > 10 {
			t.Errorf("%d PUTs, want one each time that writers waited", n)
		}
		if got := events.kinds(); !slices.Contains(got, EventWait) || !slices.Contains(got, EventGoOn) {
			t.Errorf("events %v", got)
		}
	})
}

// TestStore_LetsLogsGo has a bucket that is away while far more is written than may wait for it. No writer waits, the
// logs on the disk stay near MaxKept, and the bucket gets all of it when it is back. What was restorable before stays so.
func TestStore_LetsLogsGo(t *testing.T) {
	for _, attached := range []bool{false, true} {
		inTime(t, func(o *Options) { o.MaxKept = 200 << 10 }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
			dir := "db"
			if attached {
				dir = "attached"
				db, err := shale.Open(dir, &shale.Options{FS: s.fs, MemtableSize: 64 << 10, CompactionWorkers: -1, OnEvent: func(shale.Event) {}})
				mustNil(t, err)
				defer db.Close()
				o := s.opts
				b, events = remotetest.NewFake(NewMem()), new(eventList)
				o.OnEvent = events.add
				s, err = Attach(t.Context(), db, dir, b, &o)
				mustNil(t, err)
				defer s.Close()
			}
			model := map[string]string{}
			put(t, s, model, "before", 100)
			time.Sleep(2 * time.Minute)
			before, seq := maps.Clone(model), s.Lag().Shipped
			b.Hook(func(string, string) error { return errors.New("503") }, nil)
			begin := time.Now()
			for i := range 60 {
				put(t, s, model, fmt.Sprint("away", i), 200)
				time.Sleep(time.Second)
			}
			if took := time.Since(begin); took > 61*time.Second {
				t.Errorf("attached %v: writers have waited: %v", attached, took)
			}
			time.Sleep(time.Minute)
			if kept := shale.ShippingOf(s.DB()).HeldLogBytes(); kept > 300<<10 {
				t.Errorf("attached %v: %d bytes of logs are kept", attached, kept)
			}
			if got := events.kinds(); !slices.Contains(got, EventLetGo) || slices.Contains(got, EventWait) {
				t.Errorf("attached %v: events while the bucket is away: %v", attached, got)
			}
			b.Hook(nil, nil)
			time.Sleep(3 * time.Minute)
			sameMap(t, "after it is back", restoredContents(t, b.Bucket), model)
			if lag := s.Lag(); lag.Seq != lag.Shipped || lag.Time != 0 {
				t.Errorf("attached %v: lag after it is back: %+v", attached, lag)
			}
			fsys := vfs.NewMem()
			_, err := Restore(t.Context(), b.Bucket, "then", At{Seq: seq}, &RestoreOptions{FS: fsys})
			mustNil(t, err)
			sameMap(t, "before it was away", contentsOf(t, fsys, "then"), before)
		})
	}
}

// TestStore_Strict checks that a write is acknowledged only when it is in the bucket, that any number of
// writers share a request, and that Close does not wait for ever.
func TestStore_Strict(t *testing.T) {
	inTime(t, func(o *Options) { o.Strict = true }, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		time.Sleep(time.Minute)
		const latency = 30 * time.Millisecond
		b.Hook(func(call, _ string) error {
			if call == "put" {
				time.Sleep(latency)
			}
			return nil
		}, nil)
		begun, puts := time.Now(), b.Count("put", "")
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := range 20 {
					key := fmt.Sprintf("%d-%d", w, i)
					if err := s.DB().Put([]byte(key), []byte("x")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(begun)
		if n := b.Count("put", "") - puts; n > 60 {
			t.Errorf("%d PUTs for 20 rounds of 64 writers", n)
		}
		t.Logf("64 writers, PUTs of %v: %.0f writes a second", latency, 64*20/took.Seconds())
		got, _ := shippedWrites(t, b.Bucket)
		if len(got) != 64*20 {
			t.Errorf("%d of %d acknowledged writes are in the bucket", len(got), 64*20)
		}

		b.Hook(func(string, string) error { return errors.New("503") }, nil)
		result := make(chan error, 1)
		go func() { result <- s.DB().Put([]byte("late"), []byte("x")) }()
		time.Sleep(time.Hour)
		select {
		case err := <-result:
			t.Fatalf("a write was acknowledged while the bucket was away: %v", err)
		default:
		}
		if _, err := s.DB().Get([]byte("late")); !errors.Is(err, shale.ErrNotFound) {
			t.Errorf("a write that is not acknowledged can be read: %v", err)
		}
		begun = time.Now()
		cerr := s.Close()
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		if cerr == nil || !strings.Contains(cerr.Error(), "not all of it is in the bucket") {
			t.Errorf("Close = %v", cerr)
		}
		if err := <-result; !errors.Is(err, ErrClosed) || !errors.Is(err, shale.ErrReadOnly) {
			t.Errorf("the write that waited: %v", err)
		}
		b.Hook(nil, nil)
		// It is in the log, and so it is there when the store is opened again.
		again, err := Open(context.Background(), "db", b, &Options{Strict: true, Store: shale.Options{FS: s.fs}})
		mustNil(t, err)
		defer again.Close()
		if ok, err := again.DB().Has([]byte("late")); !ok || err != nil {
			t.Errorf("the write that waited is lost: %v", err)
		}
	})
}

// TestStore_IngestsOften ingests each second. The first ingestion is published at once, and then there is a step each ten
// seconds, not one for each ingestion.
func TestStore_IngestsOften(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		time.Sleep(10*time.Minute + 30*time.Second)
		begun := s.Status().Step
		for i := range 300 {
			mustNil(t, s.DB().Ingest(t.Context(), func(yield func(k, v []byte) bool) {
				yield(fmt.Appendf(nil, "k%04d", i), []byte("v"))
			}))
			time.Sleep(time.Second)
			if i == 3 && s.Status().Step == begun {
				t.Error("the first ingestion is not published after some seconds")
			}
		}
		if n := s.Status().Step - begun; n < 25 || n > 40 {
			t.Errorf("%d steps for 300 ingestions in five minutes", n)
		}
	})
}

package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestStore_Retention writes for some days. What can be restored goes back as far as Retain says, a pin is
// kept beyond that, and nothing is left over. When the store becomes idle there is one last
// collection, and then no request.
func TestStore_Retention(t *testing.T) {
	inTime(t, func(o *Options) { o.Retain = 4 * time.Hour; o.Store.CompactionWorkers = 1 }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		model := map[string]string{}
		reads := b.Count("read", object.StepFolder)
		objects := func() (n int) {
			for range b.Bucket.List(t.Context(), "", "") {
				n++
			}
			return n
		}
		most, pinned := 0, map[string]string(nil)
		for hour := range 20 {
			for range 6 {
				put(t, s, model, "k", 60)
				time.Sleep(10 * time.Minute)
			}
			if hour == 12 {
				most = objects()
				_, err := s.Pin(t.Context(), "noon", PinOptions{})
				mustNil(t, err)
				pinned = contents(t, s.DB())
			}
			if n := objects(); hour > 12 && n > most*3/2 {
				t.Fatalf("%d objects after %d hours, and %d after 12", n, hour, most)
			}
		}
		check := func(what string) {
			t.Helper()
			sameMap(t, what+": restored", restoredContents(t, b.Bucket), contents(t, s.DB()))
			report, err := Verify(t.Context(), b.Bucket, true)
			mustNil(t, err)
			if len(report.Findings) > 0 {
				t.Errorf("%s: %v", what, report.Findings)
			}
		}
		steps := s.Status().Step
		reads = b.Count("read", object.StepFolder) - reads
		if t.Logf("%d reads of %d steps", reads, steps); reads > 20*10 || steps < 100 {
			t.Errorf("20 collections have read %d steps of %d", reads, steps)
		}
		check("after 20 hours")
		c, err := chain.LoadChain(t.Context(), b.Bucket, s.id, 0)
		mustNil(t, err)
		floor, err := chain.ReadStep(t.Context(), b.Bucket, s.id, c.State.Floor)
		mustNil(t, err)
		if age := time.Since(floor.Written); age < 4*time.Hour || age > 7*time.Hour {
			t.Errorf("the oldest step that can be restored is of %v ago", age)
		}
		if !slices.Contains(events.kinds(), EventCollected) {
			t.Error("no event says that something was collected")
		}

		time.Sleep(24 * time.Hour)
		check("after an idle day")
		calls := b.Count("", "")
		time.Sleep(7 * 24 * time.Hour)
		if n := b.Count("", "") - calls; n > 7*24 { // one list of tables each hour
			t.Errorf("%d calls in an idle week", n)
		}
		// How many depends on the shape of the tree: 23 to 38 in forty runs.
		if n := objects(); n > 60 {
			for info := range b.Bucket.List(t.Context(), "", "") {
				t.Log(info.Name)
			}
			t.Errorf("%d objects are left when all but the newest state and a pin could be collected", n)
		}
		sameMap(t, "the pin", restoredPin(t, b.Bucket, "noon"), pinned)
		mustNil(t, RemovePin(t.Context(), s.bucket, "noon"))
		_, err = s.Collect(t.Context())
		mustNil(t, err)
		if n := objects(); n > 55 {
			t.Errorf("%d objects are left without the pin", n)
		}
	})
}

// TestStore_CollectKeepsUnpublished ends a process between the upload of its tables and the step. The next process, which
// is going to name them, collects first. They stay: a call that deletes one may be done late, when a step names it.
func TestStore_CollectKeepsUnpublished(t *testing.T) {
	fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "a", 10)
	mustNil(t, s.Publish(t.Context()))
	put(t, s, model, "b", 10)
	mustNil(t, s.DB().Flush(t.Context()))
	b.Refuse("put", object.StepFolder) // as of a process that is dead
	if err := s.Publish(t.Context()); !errors.As(err, new(remotetest.Refusal)) {
		t.Fatal(err)
	}
	b.Hook(nil, nil)
	uploaded := remotetest.NamesOf(t, b, object.TableFolder)
	o := manual(fsys.Crash(vfs.CrashConfig{}))
	o.Retain = 1
	s = openStore(t, "db", b, o)
	for range 2 {
		_, err := s.Collect(t.Context())
		mustNil(t, err)
	}
	if now := remotetest.NamesOf(t, b, object.TableFolder); len(uploaded) == 0 || !slices.Equal(uploaded, now) {
		t.Errorf("of %q, %q are left", uploaded, now)
	}
	mustNil(t, s.Publish(t.Context()))
	sameMap(t, "restored", restoredContents(t, b), model)
}

// TestStore_CollectsBehindALateStep collects when a step stands in the bucket whose publisher was told that it has failed. That
// is its own step, and not another writer's, whatever shows it.
func TestStore_CollectsBehindALateStep(t *testing.T) {
	for _, shows := range []string{"the floor is raised", "nothing is to be done", "the step that it reads is not there"} {
		t.Run(shows, func(t *testing.T) {
			gone := shows == "the step that it reads is not there"
			b, model, o := remotetest.NewFake(NewMem()), map[string]string{}, manual(vfs.NewMem())
			o.Retain = time.Hour
			if shows == "the floor is raised" {
				o.Retain = 1
			}
			s := openStore(t, "db", b, o)
			put(t, s, model, "a", 10)
			mustNil(t, s.Publish(t.Context()))
			put(t, s, model, "b", 10)
			mustNil(t, s.DB().Flush(t.Context()))
			lost := remotetest.Refusal{Err: errors.New("the answer is lost")}
			b.Hook(nil, func(call, name string) error {
				if call == "put" && strings.HasPrefix(name, object.StepFolder) {
					return lost
				}
				return nil
			})
			if err := s.Publish(t.Context()); !errors.Is(err, lost) {
				t.Fatal(err)
			}
			last := s.Status().Step
			var read atomic.Bool
			b.Hook(func(call, name string) error {
				if gone && call == "read" && strings.HasPrefix(name, object.StepFolder) && !read.Swap(true) {
					return fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
				}
				return nil
			}, nil)
			if _, err := s.Collect(t.Context()); err != nil {
				t.Fatalf("Collect: %v", err)
			}
			if now := s.Status().Step; now <= last || s.Err() != nil || read.Load() != gone {
				t.Errorf("step %d after step %d, the store's error: %v", now, last, s.Err())
			}
			put(t, s, model, "c", 10)
			mustNil(t, s.Publish(t.Context()))
			sameMap(t, "restored", restoredContents(t, b), model)
		})
	}
}

// TestStore_ShortLives restarts a process that lives for less than Options.Retain, for some days. The floor follows: each life
// also collects what earlier ones have left.
func TestStore_ShortLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		for life := range 16 {
			o := clocked(fsys)
			o.Retain, o.Store.CompactionWorkers = 6*time.Hour, 1
			s, err := Open(t.Context(), "db", b, o)
			mustNil(t, err)
			for range 30 {
				put(t, s, model, "k", 5)
				time.Sleep(10 * time.Minute)
			}
			time.Sleep(time.Second) // a collection may begin at the same moment
			c, err := chain.LoadChain(t.Context(), b, s.id, 0)
			mustNil(t, err)
			if life > 2 {
				floor, err := chain.ReadStep(t.Context(), b, s.id, max(c.State.Floor, 1))
				mustNil(t, err)
				if age := time.Since(floor.Written); age < 6*time.Hour || age > 9*time.Hour {
					t.Errorf("life %d: the oldest step that can be restored is of %v ago", life, age)
				}
			}
			mustNil(t, s.Close())
			time.Sleep(time.Minute)
		}
	})
}

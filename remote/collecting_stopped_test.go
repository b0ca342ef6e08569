package remote

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// stopCollecting lets s collect, and calls meanwhile before the first call of its bucket b that is at answers for. The process
// is stopped there, and meanwhile is what others do. It reports whether the collection has come there.
func stopCollecting(t *testing.T, s *Store, b *remotetest.Fake, at func(call, name string) bool, meanwhile func()) (stopped bool) {
	t.Helper()
	var mu sync.Mutex // protects stopped, and what at changes
	b.Hook(func(call, name string) error {
		mu.Lock()
		first := !stopped && at(call, name)
		stopped = stopped || first
		mu.Unlock()
		if first {
			meanwhile()
		}
		return nil
	}, nil)
	_, err := s.Collect(t.Context())
	b.Hook(nil, nil)
	if err != nil && !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	return stopped
}

// allThere fails the test if the bucket lacks something.
func allThere(t *testing.T, b Bucket, model map[string]string) {
	t.Helper()
	report, err := Verify(t.Context(), b, true)
	mustNil(t, err)
	for _, f := range report.Findings {
		t.Error(f)
	}
	if !t.Failed() {
		sameMap(t, "restored", restoredContents(t, b), model)
	}
}

// TestStore_CollectsFlushedMeanwhile stops a process in a collection, before each of its calls. Its disk goes to another
// machine, with a table that was flushed after the collection had begun. The store is opened there and publishes the table.
// Then the process goes on: it must not take the table for one that nobody needs.
func TestStore_CollectsFlushedMeanwhile(t *testing.T) {
	for at := 1; ; at++ {
		fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
		o := manual(fsys)
		o.Retain = 1
		s := openStore(t, "db", b, o)
		put(t, s, model, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		put(t, s, model, "b", 10)
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		calls := 0
		stopped := stopCollecting(t, s, b, func(call, name string) bool { calls++; return calls == at }, func() {
			put(t, s, model, "c", 10)
			mustNil(t, s.Ship(t.Context()))
			mustNil(t, s.DB().Flush(t.Context()))
			mustNil(t, openStore(t, "db", b.Bucket, manual(copyOf(fsys))).Publish(t.Context()))
		})
		allThere(t, b, model)
		if t.Failed() {
			t.Fatalf("the collection was stopped before its call %d", at)
		}
		if !stopped {
			return
		}
	}
}

// TestStore_CollectsOfACopy has a table in the bucket that no step names: it was uploaded, and the step was not. A copy of
// the directory is made. Then the process merges the table with another one, and collects; it is stopped before it
// deletes the table. The copy is opened, names the table, and the process goes on.
func TestStore_CollectsOfACopy(t *testing.T) {
	fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
	s := openStore(t, "db", b, manual(fsys))
	put(t, s, model, "a", 10)
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	put(t, s, model, "a", 10)
	mustNil(t, s.DB().Flush(t.Context()))
	b.Refuse("put", object.StepFolder) // as of a process that is dead
	if err := s.Publish(t.Context()); !errors.As(err, new(remotetest.Refusal)) {
		t.Fatal(err)
	}
	b.Hook(nil, nil)
	uploaded := remotetest.NamesOf(t, b, object.TableFolder)[1:] // without the one that step 2 names
	o := manual(fsys.Crash(vfs.CrashConfig{}))
	o.Retain = time.Hour // so the floor stays where it is
	s = openStore(t, "db", b, o)
	older := copyOf(o.Store.FS.(*vfs.Mem))
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	stopped := stopCollecting(t, s, b, func(call, name string) bool { return call == "delete" && slices.Contains(uploaded, name) }, func() {
		copied, err := Open(t.Context(), "db", b.Bucket, manual(older))
		if !errors.Is(err, ErrFenced) { // else it is refused
			mustNil(t, err)
			t.Cleanup(func() { _ = copied.Close() })
			mustNil(t, copied.Publish(t.Context()))
		}
	})
	if !stopped {
		t.Error("the table is not collected")
	}
	allThere(t, b, model)
}

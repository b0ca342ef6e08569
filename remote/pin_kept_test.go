package remote

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// pinnedLife is a store in a bucket with a step for each of n publications, of which those in pinned have a pin "at-N", and
// some a state. It returns what the store had at each step. Then all but the newest is collected.
func pinnedLife(t *testing.T, b Bucket, n int, pinned func(step uint64) bool) (s *Store, had map[uint64]map[string]string) {
	t.Helper()
	o := manual(vfs.NewMem())
	o.Retain, o.testing.states = 1, 5
	s, model := openStore(t, "db", b, o), map[string]string{}
	had = make(map[uint64]map[string]string)
	for range n {
		put(t, s, model, "k", 3)
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		step := s.Status().Step
		had[step] = contents(t, s.DB())
		if pinned(step) {
			_, err := s.Pin(t.Context(), "at-"+string(rune('a'+step)), PinOptions{Step: step})
			mustNil(t, err)
		}
		time.Sleep(time.Millisecond) // states have to be older than Retain
	}
	return s, had
}

// collectAll collects until nothing more goes.
func collectAll(t *testing.T, s *Store) {
	t.Helper()
	for range 20 {
		_, err := s.Collect(t.Context())
		mustNil(t, err)
	}
}

// TestPin_BelowFloor pins steps with and without a state of their own, and collects all that is not pinned, several times and
// from a process that has just begun. Each pin can be restored, and what goes with the last pin is nothing but its own.
func TestPin_BelowFloor(t *testing.T) {
	b := NewMem()
	s, had := pinnedLife(t, b, 23, func(step uint64) bool { return step%4 == 3 || step == 10 })
	collectAll(t, s)
	floor := s.publish.chain.State.Floor
	check := func(what string) {
		t.Helper()
		report, err := Verify(t.Context(), b, true)
		mustNil(t, err)
		if len(report.Findings) > 0 || len(report.Leftovers) > 0 {
			t.Errorf("%s: %v, left over %v", what, report.Findings, report.Leftovers)
		}
		pins, err := Pins(t.Context(), s.bucket)
		mustNil(t, err)
		for _, p := range pins {
			name, _, _ := chain.SplitLabel(p.Label)
			sameMap(t, what+": "+p.Label, restoredPin(t, b, name), had[p.N])
		}
	}
	if floor < 20 {
		t.Fatalf("the floor is step %d", floor)
	}
	check("after collections")
	pins, err := Pins(t.Context(), s.bucket)
	mustNil(t, err)
	for _, p := range pins {
		src, err := p.Encode(nil)
		if mustNil(t, err); len(src) > 200 {
			t.Errorf("pin %s has %d bytes", p.Label, len(src))
		}
		mustNil(t, RemovePin(t.Context(), s.bucket, p.Label))
		collectAll(t, s)
		check("without " + p.Label)
	}
}

// TestPin_OfAStray has pins whose step is gone: one that was PUT again late, and one whose step was created again by a stopped
// writer. Nothing is restored from them; Verify names them. A collection passes over one that expires, and ends with an error
// at one that does not.
func TestPin_OfAStray(t *testing.T) {
	b := NewMem()
	s, _ := pinnedLife(t, b, 12, func(step uint64) bool { return step == 7 })
	p, err := chain.FindPin(t.Context(), b, s.id, "at-h")
	mustNil(t, err)
	step, err := chain.ReadStep(t.Context(), b, s.id, 7)
	mustNil(t, err)
	state, _, err := chain.PinnedState(t.Context(), b, p)
	mustNil(t, err)
	mustNil(t, chain.Unpin(t.Context(), b, p.Label))
	collectAll(t, s)
	check := func(what string) {
		t.Helper()
		if _, _, err := chain.PinnedState(t.Context(), b, p); !errors.Is(err, ErrSnapshotGone) {
			t.Errorf("%s: %v", what, err)
		}
		report, err := Verify(t.Context(), b, false)
		if mustNil(t, err); len(report.Findings) != 1 || report.Findings[0].Object != p.Name() {
			t.Errorf("%s: %v", what, report.Findings)
		}
	}
	mustNil(t, chain.PutPin(t.Context(), b, p, true))
	check("late")
	if _, err := s.Collect(t.Context()); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("a collection: %v", err)
	}
	mustNil(t, chain.Unpin(t.Context(), b, p.Label))
	p.Expires = time.Now().Add(time.Hour)
	mustNil(t, chain.PutPin(t.Context(), b, p, true))
	collectAll(t, s)
	// What stands there now is another writer's.
	other := *step
	other.Writer++
	for _, o := range []interface {
		Name() string
		Encode([]byte) ([]byte, error)
	}{&other, state} {
		src, err := o.Encode(nil)
		mustNil(t, err)
		mustNil(t, PutObject(t.Context(), b, o.Name(), src, true))
	}
	check("a stray")
	collectAll(t, s)
	if names := remotetest.NamesOf(t, b, object.StepFolder); slices.Contains(names, object.StepName(7)) {
		t.Errorf("the stray stays: %q", names)
	}
}

// TestPin_LeftByAShipper has a writer that may not delete, and whose pin comes too late. The pin stays, and another process
// goes on to collect: it removes the pin.
func TestPin_LeftByAShipper(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	s, _ := pinnedLife(t, b, 12, func(uint64) bool { return false })
	c, err := chain.LoadChain(t.Context(), b, s.id, 7)
	mustNil(t, err)
	collectAll(t, s)
	b.Refuse("delete", "")
	if _, err := c.Pin(t.Context(), b, "late", chain.PinOptions{}); !errors.Is(err, ErrSnapshotGone) {
		t.Fatalf("a pin below the floor: %v", err)
	}
	if names := remotetest.NamesOf(t, b.Bucket, object.PinFolder); len(names) != 1 {
		t.Fatalf("the pins are %q, want the one that nobody could remove", names)
	}
	_, err = Collect(t.Context(), b.Bucket)
	mustNil(t, err)
	if names := remotetest.NamesOf(t, b.Bucket, object.PinFolder); len(names) > 0 {
		t.Errorf("%q stays", names)
	}
}

package remote

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shaledb/shale"
)

// objectsIn returns how many objects of a kind a bucket has.
func objectsIn(t testing.TB, b Bucket, folder string) (n int) {
	for _, err := range b.List(t.Context(), folder, "") {
		mustNil(t, err)
		n++
	}
	return n
}

// TestClone clones a pin, and a pin of the clone: both clones show the state of the pin, whatever the parent's writer does,
// and nothing is copied.
func TestClone(t *testing.T) {
	buckets := map[string]Bucket{"a": NewMem(), "b": NewMem(), "c": NewMem()}
	parent := func(prefix string) (Bucket, error) {
		if b := buckets[prefix]; b != nil {
			return b, nil
		}
		return nil, fmt.Errorf("no bucket %q", prefix)
	}
	w := startWriter(t, buckets["a"], 1, shale.Options{})
	w.bulk()
	w.commit(w.randomChanges())
	w.publish()
	seq := w.db.LogPosition().LastSeq
	_, err := pin(t.Context(), buckets["a"], w.storeID, "base", PinOptions{})
	mustNil(t, err)
	mustNil(t, Clone(t.Context(), buckets["a"], "base", buckets["b"], CloneOptions{Prefix: "a", Owner: "test"}))
	for folder, want := range map[string]int{tableFolder: 0, segmentFolder: 0, stepFolder: 1, stateFolder: 1} {
		if n := objectsIn(t, buckets["b"], folder); n != want {
			t.Errorf("the clone has %d objects in %s, want %d", n, folder, want)
		}
	}
	if err := Clone(t.Context(), buckets["a"], "base", buckets["b"], CloneOptions{Prefix: "a"}); err == nil {
		t.Error("a second clone to the same bucket succeeds")
	}
	_, err = pin(t.Context(), buckets["b"], w.storeID, "again", PinOptions{})
	mustNil(t, err)
	if err := Clone(t.Context(), buckets["b"], "again", buckets["c"], CloneOptions{Prefix: "b"}); err == nil {
		t.Error("a clone of a clone without its parent succeeds")
	}
	mustNil(t, Clone(t.Context(), buckets["b"], "again", buckets["c"], CloneOptions{Prefix: "b", Parent: parent}))
	if n := objectsIn(t, buckets["a"], pinFolder); n != 3 {
		t.Errorf("%d pins in the parent, want that of the caller and one of each clone", n)
	}

	// The parent goes on, and collects what the pins do not keep.
	model := *w
	for range 50 {
		w.commit(w.randomChanges())
	}
	w.publish()
	for _, prefix := range []string{"b", "c"} {
		if _, err := OpenReader(t.Context(), buckets[prefix], nil); err == nil {
			t.Error("a reader of a clone that does not know the parent")
		}
		r := openTestReader(t, buckets[prefix], ReaderOptions{Parent: parent})
		if r.Seq() != seq {
			t.Errorf("clone %s is at %d, want %d", prefix, r.Seq(), seq)
		}
		model.check(r, seq)
		mustNil(t, r.Close())
	}
}

// TestClone_Release gives up the parents' pins when no step and no pin needs them, and not before.
func TestClone_Release(t *testing.T) {
	buckets := map[string]Bucket{"a": NewMem(), "b": NewMem()}
	parent := func(prefix string) (Bucket, error) { return buckets[prefix], nil }
	w := startWriter(t, buckets["a"], 2, shale.Options{})
	w.bulk()
	w.publish()
	_, err := pin(t.Context(), buckets["a"], w.storeID, "base", PinOptions{})
	mustNil(t, err)
	mustNil(t, Clone(t.Context(), buckets["a"], "base", buckets["b"], CloneOptions{Prefix: "a"}))
	b := buckets["b"]
	c, err := claim(t.Context(), b, claimant{storeID: w.storeID, writer: 9, now: time.Now, note: func(*Step, uint64) error { return nil }})
	mustNil(t, err)
	if below := c.state.Parents[0].Below; c.epoch<<EpochShift != below {
		t.Errorf("the clone's writer has epoch %d, and files below %d are the parent's", c.epoch, below)
	}
	_, err = c.fence(t.Context(), b)
	mustNil(t, err)
	left, err := releaseParents(t.Context(), b, c, parent)
	mustNil(t, err)
	if len(left) != 1 || objectsIn(t, buckets["a"], pinFolder) != 2 {
		t.Errorf("the parent is given up, although the newest step needs it: %+v", left)
	}
	// The clone's writer has merged all tables away. Earlier steps need them still.
	note := func(uint64) error { return nil }
	var edit editTo
	edit.clear(c.state.Tables.Version)
	edit.e.MinLog = 1 << 60 >> 1
	mustNil(t, c.publish(t.Context(), b, &Step{Written: c.step.Written, Edit: edit.e, Parents: left}, note))
	src, err := c.state.Encode(nil)
	mustNil(t, err)
	mustNil(t, PutObject(t.Context(), b, c.state.Name(), src, true))
	if left, err = releaseParents(t.Context(), b, c, parent); err != nil || len(left) != 1 {
		t.Errorf("the parent is given up, although an earlier step needs it: %+v, %v", left, err)
	}
	mustNil(t, c.publish(t.Context(), b, &Step{Written: c.step.Written, Floor: c.n(), Parents: left}, note))
	if left, err = releaseParents(t.Context(), b, c, parent); err != nil || len(left) != 0 {
		t.Errorf("the parent is not given up: %+v, %v", left, err)
	}
	if n := objectsIn(t, buckets["a"], pinFolder); n != 1 {
		t.Errorf("%d pins in the parent, want that of the caller", n)
	}
}

// TestClone_BadPin clones what is not there, or is of another store.
func TestClone_BadPin(t *testing.T) {
	a, b := NewMem(), NewMem()
	w := startWriter(t, a, 3, shale.Options{})
	w.publish()
	if err := Clone(t.Context(), a, "none", b, CloneOptions{Prefix: "a"}); err == nil {
		t.Error("a clone of a pin that is not there")
	}
	_, err := pin(t.Context(), a, w.storeID, "base", PinOptions{})
	mustNil(t, err)
	if err := Clone(t.Context(), a, "base", b, CloneOptions{}); err == nil {
		t.Error("a clone without a prefix")
	}
	startWriter(t, b, 4, shale.Options{})
	if err := Clone(t.Context(), a, "base", b, CloneOptions{Prefix: "a"}); err == nil || !errors.Is(err, ErrOtherStore) && err == nil {
		t.Errorf("a clone over another store: %v", err)
	}
	if n := objectsIn(t, a, pinFolder); n != 1 {
		t.Errorf("%d pins are left", n)
	}
}

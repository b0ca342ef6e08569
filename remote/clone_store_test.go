package remote

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// TestClone_Writes restores a clone and writes to it, while the parent's writer goes on: readers of the two show each its
// own store.
func TestClone_Writes(t *testing.T) {
	testenv.CheckLeaks(t)
	buckets := map[string]Bucket{"a": NewMem(), "b": NewMem()}
	parent := func(prefix string) (Bucket, error) {
		if b := buckets[prefix]; b != nil {
			return b, nil
		}
		return nil, fmt.Errorf("no bucket %q", prefix)
	}
	w := &testWriter{t: t, b: buckets["a"], random: rand.New(rand.NewPCG(1, 2))}
	s, err := Open(t.Context(), "db", buckets["a"], byHand(vfs.NewMem()))
	mustNil(t, err)
	w.db = s.DB()
	for range 40 {
		w.commit(w.randomChanges())
	}
	mustNil(t, s.Publish(t.Context()))
	w.commit(w.randomChanges())
	mustNil(t, s.Publish(t.Context()))
	seq := w.db.LogPosition().LastSeq
	_, err = s.Pin(t.Context(), "base", PinOptions{})
	mustNil(t, err)
	mustNil(t, Clone(t.Context(), buckets["a"], "base", buckets["b"], CloneOptions{Prefix: "a"}))

	// The parent writes on in the same log.
	w.commit(w.randomChanges())
	mustNil(t, s.Ship(t.Context()))

	r := openTestReader(t, buckets["b"], ReaderOptions{Parent: parent})
	if r.Seq() != seq {
		t.Errorf("the reader of the clone shows %d, want %d", r.Seq(), seq)
	}
	w.check(r, seq)

	mem := vfs.NewMem()
	_, err = Restore(t.Context(), buckets["b"], "db", At{}, &RestoreOptions{FS: mem, Parent: parent})
	mustNil(t, err)
	opts := byHand(mem)
	opts.Parent, opts.Retain = parent, time.Nanosecond
	c, err := Open(t.Context(), "db", buckets["b"], opts)
	mustNil(t, err)
	cloned := *w
	cloned.commits = append([]testCommit{}, w.commits[:len(w.commits)-1]...)
	cloned.db = c.DB()
	cloned.check(c.DB(), seq)
	for range 30 {
		cloned.commit(cloned.randomChanges())
		w.commit(w.randomChanges())
	}
	mustNil(t, c.Ship(t.Context()))
	mustNil(t, s.Ship(t.Context()))
	mustNil(t, r.WaitFor(t.Context(), c.DB().LogPosition().LastSeq))
	cloned.check(r, r.Seq())
	mustNil(t, c.Publish(t.Context()))
	mustNil(t, c.DB().Compact(t.Context(), shale.Range{}))
	mustNil(t, c.Publish(t.Context()))
	mustNil(t, r.Refresh(t.Context()))
	cloned.check(r, c.DB().LogPosition().LastSeq)
	fresh := openTestReader(t, buckets["b"], ReaderOptions{Parent: parent})
	cloned.check(fresh, c.DB().LogPosition().LastSeq)
	mustNil(t, fresh.Close())
	mustNil(t, r.Close())

	// Nothing needs the parent any more once its tables are merged away, and no step before that is kept.
	for range 3 {
		cloned.commit(cloned.randomChanges())
		mustNil(t, c.DB().Compact(t.Context(), shale.Range{}))
		mustNil(t, c.Publish(t.Context()))
		_, err = c.Collect(t.Context())
		mustNil(t, err)
	}
	if n := objectsIn(t, w.b, pinFolder); n != 1 {
		t.Errorf("%d pins in the parent, want that of the caller", n)
	}
	buckets["a"] = NewMem() // the clone stands alone
	alone := openTestReader(t, buckets["b"], ReaderOptions{})
	cloned.check(alone, c.DB().LogPosition().LastSeq)
	mustNil(t, alone.Close())
	of := openTestReader(t, w.b, ReaderOptions{})
	w.check(of, w.db.LogPosition().LastSeq)
	for _, c := range []interface{ Close() error }{of, c, s} {
		mustNil(t, c.Close())
	}
}

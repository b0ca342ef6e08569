package remote

import (
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// TestStore_WritersWaitForTables has no Publish of its own, and MaxLag: a writer waits for the tables of an ingestion. They
// have to come, since the program that would call Publish may be the one that waits. Without a writer that waits nothing
// is published.
func TestStore_WritersWaitForTables(t *testing.T) {
	b := NewMem()
	s, err := Open(t.Context(), "db", b, &Options{
		Store: shale.Options{FS: vfs.NewMem()}, Ship: time.Millisecond, Publish: -1, MaxLag: 50 * time.Millisecond,
	})
	mustNil(t, err)
	before := s.Status().Step
	mustNil(t, s.DB().Ingest(t.Context(), func(yield func(k, v []byte) bool) { yield([]byte("a"), []byte("1")) }))
	for s.Lag().Time <= s.opts.MaxLag {
		time.Sleep(time.Millisecond)
	}
	if s.Status().Step != before {
		t.Error("the ingestion was published although nobody waited")
	}
	within(t, "Put", func() { mustNil(t, s.DB().Put([]byte("b"), []byte("2"))) })
	mustNil(t, s.Ship(t.Context()))
	if lag := s.Lag(); lag.Seq != lag.Shipped {
		t.Errorf("%+v", lag)
	}
	mustNil(t, s.Close())
}

// TestStore_CloseAfterIngest closes right after an ingestion, also without a Publish of its own: what Close returned nil
// for can be restored.
func TestStore_CloseAfterIngest(t *testing.T) {
	for _, publish := range []time.Duration{time.Minute, -1} {
		b := NewMem()
		s, err := Open(t.Context(), "db", b, &Options{Store: shale.Options{FS: vfs.NewMem()}, Publish: publish})
		mustNil(t, err)
		model := map[string]string{}
		put(t, s, model, "before", 3)
		mustNil(t, s.DB().Ingest(t.Context(), func(yield func(k, v []byte) bool) { yield([]byte("a"), []byte("1")) }))
		model["a"] = "1"
		put(t, s, model, "after", 3)
		mustNil(t, s.Close())
		sameMap(t, "restored", restoredContents(t, b), model)
	}
}

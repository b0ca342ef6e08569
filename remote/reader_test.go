package remote

import (
	"errors"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// openTestReader opens a reader that looks only when it is asked to.
func openTestReader(t testing.TB, b Bucket, o ReaderOptions) *Reader {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = -1
	}
	r, err := OpenReader(t.Context(), b, &o)
	mustNil(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReader_Model follows writers through random lives, in which they also die, close and open their stores, and
// compares all that the reader shows, and old snapshots, with the model.
func TestReader_Model(t *testing.T) {
	testenv.CheckLeaks(t)
	for seed := range lives(t, 12) {
		b := NewMem()
		w := startWriter(t, b, seed, shale.Options{})
		w.publish()
		r := openTestReader(t, b, ReaderOptions{})
		var snapshots []*Snapshot
		for range 150 {
			switch w.random.IntN(14) {
			case 0:
				w.publish()
			case 1, 2:
				w.ship()
			case 3:
				if w.random.IntN(3) == 0 {
					w.ingest()
				}
			case 4:
				if w.random.IntN(5) == 0 {
					mustNil(t, w.db.Compact(t.Context(), shale.Range{}))
				}
			case 5, 6:
				before := r.Seq()
				mustNil(t, r.Refresh(t.Context()))
				if r.Seq() < before {
					t.Fatalf("the reader goes back from %d to %d", before, r.Seq())
				}
				w.check(r, r.Seq())
			case 7:
				if s, err := r.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				} else {
					snapshots = append(snapshots, s)
					w.check(s, s.Seq())
				}
			case 8:
				if len(snapshots) > 0 {
					s := snapshots[w.random.IntN(len(snapshots))]
					w.check(s, s.Seq())
				}
			case 9:
				switch w.random.IntN(6) {
				case 0:
					last := shale.ShippingOf(w.db).Position().LastSeq
					mustNil(t, w.s.Close())
					mustNil(t, r.Refresh(t.Context()))
					if r.Seq() != last {
						t.Fatalf("seed %d: the writer has closed at %d, and the reader shows %d", seed, last, r.Seq())
					}
					w.open()
				case 1: // it dies, and has not shipped all that it finds again
					mustNil(t, w.db.Sync())
					w.o.Store.FS = copyOf(w.o.Store.FS.(*vfs.Mem))
					w.open()
				}
			case 10:
				mustNil(t, r.View(func(tx *shale.Txn) error {
					w.check(tx, tx.Seq())
					w.commit(w.randomChanges())
					w.publish()
					mustNil(t, r.Refresh(t.Context()))
					w.check(tx, tx.Seq())
					w.check(r, r.Seq())
					if err := tx.Put([]byte("k"), nil); !errors.Is(err, shale.ErrReadOnly) || tx.Seq() == r.Seq() {
						t.Errorf("seed %d: a write to a View of %d: %v; the reader shows %d", seed, tx.Seq(), err, r.Seq())
					}
					return nil
				}))
			case 11:
				w.deleteRange()
			default:
				w.commit(w.randomChanges())
			}
		}
		w.publish()
		last := shale.ShippingOf(w.db).Position().LastSeq
		mustNil(t, r.WaitFor(t.Context(), last))
		w.check(r, last)
		for _, s := range snapshots {
			w.check(s, s.Seq())
			mustNil(t, s.Close())
		}
		fresh := openTestReader(t, b, ReaderOptions{})
		w.check(fresh, last)
		mustNil(t, fresh.Close())
		mustNil(t, r.Close())
		if _, err := r.Get([]byte("key001")); err != shale.ErrClosed {
			t.Errorf("Get after Close: %v", err)
		}
		mustNil(t, w.s.Close())
	}
}

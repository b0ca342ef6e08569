package remote

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// manual are options under which nothing happens by itself, with a small store in memory.
func manual(fsys vfs.FS) *Options {
	return &Options{
		Ship: -1, Publish: -1, Flush: -1, Retain: -1,
		Store: shale.Options{FS: fsys, MemtableSize: 64 << 10, CompactionWorkers: -1, OnEvent: func(shale.Event) {}},
	}
}

// openStore opens a store and closes it at the end of the test.
func openStore(t testing.TB, dir string, b Bucket, o *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, b, o)
	mustNil(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put writes n keys with a prefix into a store, and into model.
func put(t testing.TB, s *Store, model map[string]string, prefix string, n int) {
	t.Helper()
	for i := range n {
		key, value := fmt.Sprintf("%s%04d", prefix, i), fmt.Sprintf("value of %s%04d, number %d", prefix, i, len(model))
		mustNil(t, s.DB().Put([]byte(key), []byte(value)))
		model[key] = value
	}
}

// shippedWrites returns what the segments in a bucket lead to, when all of them are applied to an empty
// store, and the last sequence number. It fails the test if the list of segments has a flaw.
func shippedWrites(t testing.TB, b Bucket) (map[string]string, uint64) {
	t.Helper()
	ctx := context.Background()
	id, err := chain.ReadIdentity(ctx, b)
	mustNil(t, err)
	model := make(map[string]string)
	lastSeq := uint64(0)
	scratch := vfs.NewMem()
	mustNil(t, scratch.MkdirAll("logs"))
	for seg, err := range (chain.SegmentList{Bucket: b, StoreID: id.StoreID}).From(ctx, object.RootPosition) {
		mustNil(t, err)
		if len(seg.Body) == 0 {
			continue
		}
		path := filepath.Join("logs", base.LogName(base.FileNum(seg.Log)))
		f, err := scratch.OpenReadWrite(path)
		if err != nil {
			f, err = scratch.Create(path)
		}
		mustNil(t, err)
		_, err = f.WriteAt(seg.Body, seg.Offset)
		mustNil(t, err)
		if size, err := f.Size(); err == nil && size < 64<<10 {
			mustNil(t, f.Truncate(64<<10)) // the header may say that so much was preallocated
		}
		mustNil(t, f.Close())
		first, last := uint64(0), uint64(0)
		_, err = wal.ReadRange(scratch, "logs", base.FileNum(seg.Log), id.StoreID, seg.Offset, seg.End(), func(payload []byte, _ int64) error {
			seq, batch, err := shale.DecodeBatch(payload)
			mustNil(t, err)
			if first == 0 {
				first = seq
			}
			for op := range batch.Ops() {
				applyTo(model, op)
			}
			last = seq + uint64(batch.Len()) - 1
			return nil
		})
		mustNil(t, err)
		if first != 0 && (first != seg.FirstSeq || last != seg.LastSeq) {
			t.Fatalf("segment %s says that it has the numbers %d to %d, and has %d to %d", seg.Name(), seg.FirstSeq, seg.LastSeq, first, last)
		}
		if seg.FirstSeq != lastSeq+1 {
			t.Fatalf("segment %s begins at number %d, after %d", seg.Name(), seg.FirstSeq, lastSeq)
		}
		lastSeq = max(lastSeq, seg.LastSeq)
	}
	return model, lastSeq
}

// restoredContents returns the contents of the store that is restored from a bucket.
func restoredContents(t testing.TB, b Bucket) map[string]string {
	t.Helper()
	return restoredPin(t, b, "")
}

// restoredPin is restoredContents at a pin.
func restoredPin(t testing.TB, b Bucket, pin string) map[string]string {
	t.Helper()
	fsys := vfs.NewMem()
	_, err := Restore(context.Background(), b, "restored", At{}, &RestoreOptions{FS: fsys, Pin: pin})
	mustNil(t, err)
	db, err := shale.Open("restored", &shale.Options{FS: fsys, ReadOnly: true, OnEvent: func(shale.Event) {}})
	mustNil(t, err)
	got := contents(t, db)
	mustNil(t, db.Close())
	return got
}

// contents returns all keys and values of a store.
func contents(t testing.TB, r shale.Reader) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for e, err := range r.Scan(shale.Range{}) {
		mustNil(t, err)
		got[string(e.Key)] = string(e.Value)
	}
	return got
}

func sameMap(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			t.Fatalf("%s: %d keys, want %d; the first that differs: %q is %q, want %q", what, len(got), len(want), k, got[k], want[k])
		}
	}
	t.Fatalf("%s: %d keys, want %d", what, len(got), len(want))
}

// checkTables checks that the bucket has what the newest step names, and that the step has the tables of
// the store.
func checkTables(t testing.TB, b Bucket, s *Store) {
	t.Helper()
	c, err := chain.LoadChain(t.Context(), b, s.id, 0)
	mustNil(t, err)
	h, err := shale.ShippingOf(s.DB()).Hold()
	mustNil(t, err)
	defer h.Release()
	if d := diff(c.State.Tables.Version, h.State().Version); len(d.Added)+len(d.Removed) > 0 {
		t.Fatalf("step %d lacks %d tables and has %d too many", c.N(), len(d.Added), len(d.Removed))
	}
	for table := range c.State.Tables.Version.Tables() {
		info, err := b.Stat(t.Context(), object.TableName(uint64(table.Num)))
		mustNil(t, err)
		if info.Size != table.Size {
			t.Fatalf("table %s has %d bytes in the bucket, want %d", table.Num, info.Size, table.Size)
		}
	}
}

// TestStore_Life writes to a store, ships, publishes, closes it and goes on, and compares the bucket with
// a model all the time.
func TestStore_Life(t *testing.T) {
	testenv.CheckLeaks(t)
	fsys, b := vfs.NewMem(), NewMem()
	model := make(map[string]string)
	for life := range 5 {
		s := openStore(t, "db", b, manual(fsys))
		sameMap(t, "reopened", contents(t, s.DB()), model)
		for round := range 4 {
			put(t, s, model, fmt.Sprintf("%c", 'a'+round), 400)
			mustNil(t, s.Ship(t.Context()))
			got, _ := shippedWrites(t, b)
			sameMap(t, fmt.Sprintf("life %d, round %d: shipped", life, round), got, model)
			if round%2 == 1 {
				mustNil(t, s.DB().Flush(t.Context())) // else a flush under way may end after Publish
			}
			mustNil(t, s.Publish(t.Context()))
			if round%2 == 1 {
				checkTables(t, b, s)
			}
		}
		if lag := s.Lag(); lag.Bytes != 0 || lag.Time != 0 || lag.Seq != lag.Shipped {
			t.Errorf("after Publish: %+v", lag)
		}
		put(t, s, model, "late", 100)
		if lag := s.Lag(); lag.Bytes == 0 || lag.Time == 0 || lag.Seq != lag.Shipped+100 {
			t.Errorf("after 100 writes: %+v", lag)
		}
		mustNil(t, s.Close())
		got, _ := shippedWrites(t, b)
		sameMap(t, "closed: shipped", got, model)
	}
}

package shale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// After Close every call returns ErrClosed, and nothing panics.
func TestClose_EveryCallAfterwards(t *testing.T) {
	db := openTest(t, small())
	fill(t, db, 3000, 0)
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	it := db.NewIterator(Range{})
	if !it.Next() {
		t.Fatal(it.Err())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	k := []byte("key000001")
	errorOf := func(_ any, err error) error { return err }
	scanError := func(r Reader) error {
		for _, err := range r.Scan(Range{}) {
			return err
		}
		return nil
	}
	for name, err := range map[string]error{
		"Get":           errorOf(db.Get(k)),
		"AppendValue":   errorOf(db.AppendValue(nil, k)),
		"ViewValue":     db.ViewValue(k, func([]byte) error { return nil }),
		"Has":           errorOf(db.Has(k)),
		"Scan":          scanError(db),
		"Put":           db.Put(k, k),
		"Delete":        db.Delete(k),
		"Write":         db.Write(ctx, &Batch{}),
		"PutIfAbsent":   errorOf(db.PutIfAbsent(k, k)),
		"GetMany":       db.GetMany([][]byte{k}, func(int, []byte, bool) error { return nil }),
		"Snapshot":      errorOf(db.Snapshot()),
		"Sync":          db.Sync(),
		"Flush":         db.Flush(ctx),
		"Compact":       db.Compact(ctx, Range{}),
		"Checkpoint":    db.Checkpoint("copy"),
		"Verify":        db.Verify(ctx),
		"Resume":        db.Resume(),
		"Explain":       errorOf(db.Inspect().Explain(k)),
		"Close":         db.Close(),
		"Snapshot.Get":  errorOf(s.Get(k)),
		"Snapshot.Has":  errorOf(s.Has(k)),
		"Snapshot.Scan": scanError(s),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if it.Next() || !errors.Is(it.Err(), ErrClosed) {
		t.Errorf("Next after Close: %v, want ErrClosed", it.Err())
	}
	if it.First() || it.Last() || it.SeekGE(k) || it.SeekLT(k) || it.Prev() || it.Valid() {
		t.Error("an iterator of a closed store moves")
	}
	if err := it.Close(); err != nil {
		t.Errorf("Iterator.Close: %v", err)
	}
	if err := it.Close(); err != nil {
		t.Errorf("second Iterator.Close: %v", err)
	}
	if !db.MayContain(k) {
		t.Error("MayContain on a closed store claims to know")
	}
	out := make([]bool, 2)
	if db.MayContainMany([][]byte{k, []byte("nope")}, out); !out[0] || !out[1] {
		t.Error("MayContainMany on a closed store claims to know")
	}
	_, _ = db.Inspect().Tables(), db.Metrics().String()
	_ = s.Close()
}

// A store in memory works in a bubble of testing/synctest and follows the bubble's clock, so
// that users can test with it. Pools that all stores share must not carry anything of one
// bubble into the next.
func TestOpen_InSynctestBubbles(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			db, err := Open("db", &Options{FS: mem, MemtableSize: 4 << 10, Durability: SyncPeriodic, SyncEvery: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 50 {
						mustPut(t, db, fmt.Sprintf("key%d-%d", g, i), "value")
						_, _ = db.Has([]byte("absent"))
					}
				})
			}
			wg.Wait()
			mustPut(t, db, "last", "value")
			w := db.logs.Current()
			if w.Synced() == w.Len() {
				t.Error("the log was synced before its time")
			}
			time.Sleep(time.Hour + time.Minute) // of the bubble
			synctest.Wait()
			if w.Synced() != w.Len() {
				t.Errorf("%d bytes of the log, %d synced an hour later", w.Len(), w.Synced())
			}
			closeTest(t, db)
		})
	}
}

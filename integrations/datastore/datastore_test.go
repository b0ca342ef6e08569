package shaleds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dstest "github.com/ipfs/go-datastore/test"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

func open(t testing.TB, opts shale.Options) *Datastore {
	t.Helper()
	if opts.FS == nil {
		opts.FS = vfs.NewMem()
	}
	d, err := Open("store", &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, shale.ErrClosed) {
			t.Error(err)
		}
	})
	return d
}

func put(t testing.TB, w ds.Write, key, value string) {
	t.Helper()
	if err := w.Put(t.Context(), ds.NewKey(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// keys returns the keys of the results, in their order.
func keys(t testing.TB, d ds.Read, q query.Query) (all []string) {
	t.Helper()
	for e, err := range ds.QueryIter(t.Context(), d, q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Key)
	}
	return all
}

func TestDatastore_Suite(t *testing.T) {
	dstest.SubtestAll(t, open(t, shale.Options{}))
}

// txnStore is a datastore all of whose writes go through transactions of their own, and whose
// queries are those of a transaction with all keys written in it, so that the suite runs against them.
type txnStore struct {
	*Datastore
	ds.Txn
}

func (s txnStore) Get(ctx context.Context, k ds.Key) ([]byte, error)  { return s.Txn.Get(ctx, k) }
func (s txnStore) Has(ctx context.Context, k ds.Key) (bool, error)    { return s.Txn.Has(ctx, k) }
func (s txnStore) GetSize(ctx context.Context, k ds.Key) (int, error) { return s.Txn.GetSize(ctx, k) }
func (s txnStore) Put(ctx context.Context, k ds.Key, value []byte) error {
	return s.Txn.Put(ctx, k, value)
}
func (s txnStore) Delete(ctx context.Context, k ds.Key) error { return s.Txn.Delete(ctx, k) }
func (s txnStore) Query(ctx context.Context, q query.Query) (query.Results, error) {
	return s.Txn.Query(ctx, q)
}
func (s txnStore) GetExpiration(context.Context, ds.Key) (time.Time, error) { return time.Time{}, nil }

// The basic part of the suite, inside of one transaction.
func TestTxn_Suite(t *testing.T) {
	d := open(t, shale.Options{})
	for _, f := range dstest.BasicSubtests {
		tx, err := d.NewTransaction(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		f(t, txnStore{d, tx})
		tx.Discard(t.Context())
	}
	if got := keys(t, d, query.Query{}); len(got) != 0 {
		t.Errorf("discarded transactions have left %q", got)
	}
}

func TestDatastore_Features(t *testing.T) {
	var names []string
	for _, f := range ds.FeaturesForDatastore(open(t, shale.Options{})) {
		names = append(names, f.Name)
	}
	want := []string{ds.FeatureNameBatching, ds.FeatureNameChecked, ds.FeatureNameGC, ds.FeatureNamePersistent, ds.FeatureNameTTL, ds.FeatureNameTransaction}
	if !slices.Equal(names, want) {
		t.Errorf("features %q, want %q", names, want)
	}
}

// An empty value is there, and is not nil; keys have any bytes; a value that was given or returned
// is the caller's.
func TestDatastore_Values(t *testing.T) {
	d, ctx := open(t, shale.Options{}), t.Context()
	for _, value := range [][]byte{nil, {}} {
		if err := d.Put(ctx, ds.NewKey("empty"), value); err != nil {
			t.Fatal(err)
		}
		got, err := d.Get(ctx, ds.NewKey("empty"))
		if size, sizeErr := d.GetSize(ctx, ds.NewKey("empty")); got == nil || len(got) != 0 || err != nil || size != 0 || sizeErr != nil {
			t.Errorf("Get = %v, %v; GetSize = %d, %v; want an empty value", got, err, size, sizeErr)
		}
	}
	odd := ds.RawKey("/\x00\xff/\n é")
	value := []byte("value")
	if err := d.Put(ctx, odd, value); err != nil {
		t.Fatal(err)
	}
	value[0] = 'V'
	got, err := d.Get(ctx, odd)
	if err != nil || string(got) != "value" {
		t.Errorf("Get = %q, %v", got, err)
	}
	got[0] = 'V'
	if again, err := d.Get(ctx, odd); err != nil || string(again) != "value" {
		t.Errorf("Get = %q, %v after the caller has changed what it got", again, err)
	}
	if err := d.Put(ctx, ds.RawKey("/"+string(make([]byte, shale.MaxKeySize))), nil); !errors.Is(err, shale.ErrKeyTooLarge) {
		t.Errorf("Put of a long key = %v, want ErrKeyTooLarge", err)
	}
}

func TestDatastore_TTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx, key := open(t, shale.Options{}), t.Context(), ds.NewKey("k")
		if err := d.SetTTL(ctx, key, time.Hour); err != ds.ErrNotFound {
			t.Errorf("SetTTL of an absent key = %v", err)
		}
		if _, err := d.GetExpiration(ctx, key); err != ds.ErrNotFound {
			t.Errorf("GetExpiration of an absent key = %v", err)
		}
		put(t, d, "k", "v")
		if at, err := d.GetExpiration(ctx, key); err != nil || !at.IsZero() {
			t.Errorf("GetExpiration = %v, %v, want never", at, err)
		}
		if err := d.SetTTL(ctx, key, time.Hour); err != nil {
			t.Fatal(err)
		}
		if at, err := d.GetExpiration(ctx, key); err != nil || !at.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("GetExpiration = %v, %v, want in an hour", at, err)
		}
		for e, err := range ds.QueryIter(ctx, d, query.Query{ReturnExpirations: true}) {
			if err != nil || !e.Expiration.Equal(time.Now().Add(time.Hour)) || string(e.Value) != "v" {
				t.Errorf("Query = %+v, %v, want v for an hour", e, err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := d.Get(ctx, key); err != ds.ErrNotFound {
			t.Errorf("Get after an hour = %v, want ErrNotFound", err)
		}
		if err := d.PutWithTTL(ctx, key, []byte("v"), time.Minute); err != nil {
			t.Fatal(err)
		}
		if known, err := d.Has(ctx, key); err != nil || !known {
			t.Errorf("Has = %v, %v", known, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTxn(t *testing.T) {
	d, ctx := open(t, shale.Options{}), t.Context()
	put(t, d, "/a/1", "old")
	begin := func(readOnly bool) ds.Txn {
		tx, err := d.NewTransaction(ctx, readOnly)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx := begin(false)
	defer tx.Discard(ctx)
	put(t, tx, "/a/2", "new")
	if got := keys(t, tx, query.Query{Prefix: "/a"}); !slices.Equal(got, []string{"/a/1", "/a/2"}) {
		t.Errorf("the transaction sees %q", got)
	}
	if known, err := d.Has(ctx, ds.NewKey("/a/2")); known || err != nil {
		t.Errorf("others see the transaction's write: %v", err)
	}
	put(t, d, "/a/3", "by another writer") // into what the query has scanned
	if err := tx.Commit(ctx); !errors.Is(err, shale.ErrConflict) {
		t.Errorf("Commit = %v, want ErrConflict", err)
	}
	again := begin(false)
	put(t, again, "/a/2", "new")
	if err := again.Commit(ctx); err != nil {
		t.Errorf("Commit = %v", err)
	}
	again.Discard(ctx) // has no effect
	if got := keys(t, d, query.Query{}); !slices.Equal(got, []string{"/a/1", "/a/2", "/a/3"}) {
		t.Errorf("the store has %q", got)
	}
	reads := begin(true)
	defer reads.Discard(ctx)
	if err := reads.Put(ctx, ds.NewKey("k"), nil); !errors.Is(err, shale.ErrReadOnly) {
		t.Errorf("Put to a transaction that only reads = %v", err)
	}
}

// A program may write a transaction while it walks the results of its query, which another
// goroutine fetches.
func TestTxn_WritesDuringQuery(t *testing.T) {
	d, ctx := open(t, shale.Options{}), t.Context()
	for i := range 500 {
		put(t, d, fmt.Sprintf("/k/%03d", i), "v")
	}
	tx, err := d.NewTransaction(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range ds.QueryIter(ctx, tx, query.Query{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Delete(ctx, ds.RawKey(e.Key)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := tx.Commit(ctx); err != nil || n != 500 {
		t.Errorf("%d entries, Commit = %v", n, err)
	}
	if got := keys(t, d, query.Query{}); len(got) != 0 {
		t.Errorf("%d keys are left", len(got))
	}
}

func TestBatch(t *testing.T) {
	d, ctx := open(t, shale.Options{}), t.Context()
	b, err := d.Batch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "a", "1")
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Commit(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit with a context that is done = %v", err)
	}
	if err := d.Put(canceled, ds.NewKey("b"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Put with a context that is done = %v", err)
	}
	if got := keys(t, d, query.Query{}); len(got) != 0 {
		t.Errorf("the store has %q", got)
	}
	if err := b.Commit(ctx); err != nil {
		t.Error(err)
	}
	if got := keys(t, d, query.Query{}); !slices.Equal(got, []string{"/a"}) {
		t.Errorf("the store has %q", got)
	}
}

func TestDatastore_Housekeeping(t *testing.T) {
	d, err := Open(t.TempDir(), &shale.Options{Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for i := range 1000 {
		put(t, d, fmt.Sprint(i), string(make([]byte, 1000)))
	}
	if err := errors.Join(d.Sync(ctx, ds.NewKey("/")), d.DB.Flush(ctx), d.Check(ctx)); err != nil {
		t.Error(err)
	}
	full, err := ds.DiskUsage(ctx, d)
	if err != nil || full == 0 {
		t.Errorf("DiskUsage = %d, %v", full, err)
	}
	for i := range 1000 {
		if err := d.Delete(ctx, ds.NewKey(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.CollectGarbage(ctx); err != nil {
		t.Error(err)
	}
	tables := 0
	for _, l := range d.DB.Metrics().Levels {
		tables += l.Tables
	}
	if tables != 0 {
		t.Errorf("%d tables of deleted keys are left", tables)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("the second Close = %v", err)
	}
	if err := d.Put(ctx, ds.NewKey("k"), nil); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("Put after Close = %v", err)
	}
	if _, err := d.Get(ctx, ds.NewKey("k")); !errors.Is(err, shale.ErrClosed) {
		t.Errorf("Get after Close = %v", err)
	}
}

func TestDatastore_Concurrent(t *testing.T) {
	d, ctx := open(t, shale.Options{}), t.Context()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				key := ds.NewKey(fmt.Sprintf("/%d/%d", g, i))
				if err := d.Put(ctx, key, []byte("v")); err != nil {
					t.Error(err)
				}
				if _, err := d.Get(ctx, key); err != nil {
					t.Error(err)
				}
			}
			if got := keys(t, d, query.Query{Prefix: fmt.Sprint(g)}); len(got) != 100 {
				t.Errorf("%d keys, want 100", len(got))
			}
		})
	}
	wg.Wait()
}

// Package shaleds is a go-datastore of IPFS over a store of shale. It has every feature of the
// interface but Scrub: batches, transactions, expiry, disk usage, garbage collection and checks.
//
// The keys of the store are the bytes of the datastore's keys, so a store can also be read with
// the command of shale. Errors of the store, such as shale.ErrClosed and shale.ErrConflict, can be
// asked for by errors.Is.
package shaleds

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A Datastore is a store of shale as a datastore. All methods may be called concurrently.
type Datastore struct {
	view
	DB  *shale.DB // for what the interface does not have, such as Metrics and Checkpoint
	dir string
	fs  vfs.FS
}

// Open opens the store in dir, or makes one, as shale.Open does. With the default options each
// write is durable when it returns. With shale.SyncManual it is after the next Sync.
func Open(dir string, opts *shale.Options) (*Datastore, error) {
	d := &Datastore{fs: vfs.Default}
	if opts != nil && opts.FS != nil {
		d.fs = opts.FS
	}
	var err error
	if d.dir, err = filepath.Abs(dir); err != nil { // for DiskUsage: the working directory may change
		return nil, err
	}
	if d.DB, err = shale.Open(d.dir, opts); err != nil {
		return nil, err
	}
	d.view = view{d.DB, noLock{}}
	return d, nil
}

// Put implements ds.Write. While writes are stalled it waits, until ctx is done.
func (d *Datastore) Put(ctx context.Context, key ds.Key, value []byte) error {
	return d.write(ctx, func(b *shale.Batch) error { return b.Put(key.Bytes(), value) })
}

// Delete implements ds.Write.
func (d *Datastore) Delete(ctx context.Context, key ds.Key) error {
	return d.write(ctx, func(b *shale.Batch) error { return b.Delete(key.Bytes()) })
}

// PutWithTTL implements ds.TTL. With a ttl of 0 or less, the key is deleted at once.
func (d *Datastore) PutWithTTL(ctx context.Context, key ds.Key, value []byte, ttl time.Duration) error {
	return d.write(ctx, func(b *shale.Batch) error { return b.PutTTL(key.Bytes(), value, ttl) })
}

func (d *Datastore) write(ctx context.Context, change func(*shale.Batch) error) error {
	var b shale.Batch
	if err := change(&b); err != nil {
		return err
	}
	return d.DB.Write(ctx, &b)
}

// SetTTL implements ds.TTL. It is atomic: a write at the same time comes before or after it.
func (d *Datastore) SetTTL(ctx context.Context, key ds.Key, ttl time.Duration) error {
	return d.locked(func() error {
		return d.DB.Update(ctx, func(tx *shale.Txn) error {
			value, err := tx.Get(key.Bytes())
			if err != nil {
				return err
			}
			return tx.PutTTL(key.Bytes(), value, ttl)
		})
	})
}

// Sync implements ds.Datastore. It makes all that was written before it durable, whatever the prefix.
func (d *Datastore) Sync(context.Context, ds.Key) error { return d.DB.Sync() }

// Close implements ds.Datastore. A second Close returns shale.ErrClosed, as do all calls after it.
func (d *Datastore) Close() error { return d.DB.Close() }

// Check implements ds.CheckedFeature. It reads the whole store.
func (d *Datastore) Check(ctx context.Context) error { return d.DB.Verify(ctx) }

// CollectGarbage implements ds.GCFeature. It rewrites what has deleted, overwritten or expired
// values in it. The store does that by itself as well, when it pays.
func (d *Datastore) CollectGarbage(ctx context.Context) error {
	return d.DB.Compact(ctx, shale.Range{})
}

// DiskUsage implements ds.PersistentFeature: the sizes of all files of the store.
func (d *Datastore) DiskUsage(context.Context) (sum uint64, err error) {
	names, err := d.fs.List(d.dir)
	for _, name := range names {
		if info, statErr := d.fs.Stat(filepath.Join(d.dir, name)); statErr == nil {
			sum += uint64(info.Size)
		} else if !errors.Is(statErr, fs.ErrNotExist) { // it was not removed meanwhile
			err = statErr
		}
	}
	return sum, err
}

// A batch collects writes. It is for one goroutine at a time, and is applied whole or not at all.
type batch struct {
	shale.Batch
	db *shale.DB
}

// Batch implements ds.BatchingFeature.
func (d *Datastore) Batch(context.Context) (ds.Batch, error) { return &batch{db: d.DB}, nil }

func (b *batch) Put(_ context.Context, key ds.Key, value []byte) error {
	return b.Batch.Put(key.Bytes(), value)
}

func (b *batch) Delete(_ context.Context, key ds.Key) error { return b.Batch.Delete(key.Bytes()) }

func (b *batch) Commit(ctx context.Context) error { return b.db.Write(ctx, &b.Batch) }

// A txn is a transaction. The lock of its view guards tx and its iterators, so that it can be
// written while the goroutine of a query walks.
type txn struct {
	view
	tx *shale.Txn
}

// NewTransaction implements ds.TxnFeature. It is serializable: if another writer has changed what
// it has read, queries included, Commit returns an error that wraps shale.ErrConflict, and the
// program begins again.
func (d *Datastore) NewTransaction(_ context.Context, readOnly bool) (ds.Txn, error) {
	tx, err := d.DB.Begin(!readOnly)
	return &txn{view{tx, new(sync.Mutex)}, tx}, err
}

func (t *txn) Put(_ context.Context, key ds.Key, value []byte) error {
	return t.locked(func() error { return t.tx.Put(key.Bytes(), value) })
}

func (t *txn) Delete(_ context.Context, key ds.Key) error {
	return t.locked(func() error { return t.tx.Delete(key.Bytes()) })
}

func (t *txn) Commit(ctx context.Context) error {
	return t.locked(func() error { return t.tx.Commit(ctx) })
}

func (t *txn) Discard(context.Context) {
	_ = t.locked(func() error { t.tx.Discard(); return nil })
}

// A view has the reading half of a datastore, over a store or a transaction.
type view struct {
	r  shale.Reader
	mu sync.Locker // held while r, or an iterator of it, is used
}

// noLock is the lock of a store, which needs none.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// locked runs fn, and returns its error: ds.ErrNotFound for the store's error for absent keys.
func (v view) locked(fn func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := fn(); !errors.Is(err, shale.ErrNotFound) {
		return err
	}
	return ds.ErrNotFound
}

// Get implements ds.Read. The value belongs to the caller.
func (v view) Get(_ context.Context, key ds.Key) (value []byte, err error) {
	err = v.locked(func() (err error) { value, err = v.r.Get(key.Bytes()); return err })
	return value, err
}

// Has implements ds.Read. For most absent keys it reads no disk.
func (v view) Has(_ context.Context, key ds.Key) (known bool, err error) {
	err = v.locked(func() (err error) { known, err = v.r.Has(key.Bytes()); return err })
	return known, err
}

// GetSize implements ds.Read. It copies no value.
func (v view) GetSize(_ context.Context, key ds.Key) (size int, err error) {
	size = -1
	measure := func(value []byte) error { size = len(value); return nil }
	err = v.locked(func() error { return v.r.ViewValue(key.Bytes(), measure) })
	return size, err
}

// GetExpiration implements ds.TTL. The zero time: the value stays.
func (v view) GetExpiration(_ context.Context, key ds.Key) (at time.Time, err error) {
	err = v.locked(func() (err error) { at, err = v.r.ExpiresAt(key.Bytes()); return err })
	return at, err
}

// Query implements ds.Read. It shows the state at the time of the call. The store walks the prefix
// alone, in the order of keys if the query wants that, up or down, and reads no further than the
// limit. Filters and other orders are applied to what it finds. Once ctx is done the results end
// with its error.
func (v view) Query(ctx context.Context, q query.Query) (query.Results, error) {
	r := shale.Range{}
	if p := ds.NewKey(q.Prefix).String(); p != "/" {
		r = shale.Prefix(p + "/") // not the key p itself
	}
	rest := q // what the store leaves to do
	rest.Prefix = ""
	forward := true
	if len(q.Orders) > 0 {
		switch q.Orders[0].(type) {
		case query.OrderByKey, *query.OrderByKey:
			rest.Orders = nil // no two keys are the same, so further orders do not matter
		case query.OrderByKeyDescending, *query.OrderByKeyDescending:
			rest.Orders, forward = nil, false
		}
	}
	r.KeysOnly = q.KeysOnly && !q.ReturnsSizes && len(q.Filters) == 0 && len(rest.Orders) == 0
	v.mu.Lock()
	it := v.r.NewIterator(r)
	v.mu.Unlock()
	found := query.ResultsFromIterator(q, query.Iterator{
		Next:  v.steps(ctx, it, r.KeysOnly, forward),
		Close: func() error { return v.locked(it.Close) },
	})
	found = query.NaiveQueryApply(rest, found)
	if q.KeysOnly && !r.KeysOnly { // values were read only for filters, orders or sizes
		values := found
		found = query.ResultsFromIterator(q, query.Iterator{Close: values.Close, Next: func() (query.Result, bool) {
			r, ok := values.NextSync()
			r.Value = nil
			return r, ok
		}})
	}
	return query.ResultsReplaceQuery(found, q), nil
}

// steps returns the function that gives the next entry of it, or one error, and then nothing.
func (v view) steps(ctx context.Context, it *shale.Iterator, keysOnly, forward bool) func() (query.Result, bool) {
	step, ended := it.Next, false
	if !forward {
		step = func() bool { step = it.Prev; return it.Last() }
	}
	return func() (query.Result, bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if ended {
			return query.Result{}, false
		}
		if err := ctx.Err(); err != nil || !step() {
			ended = true
			err = errors.Join(err, it.Err())
			return query.Result{Error: err}, err != nil
		}
		e := query.Entry{Key: string(it.Key()), Expiration: it.ExpiresAt(), Size: -1}
		if !keysOnly {
			e.Value = append([]byte{}, it.Value()...)
			e.Size = len(e.Value)
		}
		return query.Result{Entry: e}, true
	}
}

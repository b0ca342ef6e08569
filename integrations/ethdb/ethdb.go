// Package shaleeth is a key-value store of go-ethereum, an ethdb.KeyValueStore, over a store of
// shale. The keys and values of both are the same.
package shaleeth

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/shaledb/shale"
)

// A Database is a store of shale as an ethdb.KeyValueStore. All methods may be called concurrently.
// Get of an absent key returns shale.ErrNotFound, and every call after Close shale.ErrClosed.
type Database struct {
	*shale.DB // Has, Get, Put, Delete and DeleteRange are its own
}

var _ ethdb.KeyValueStore = Database{}

// Open opens the store in dir, or makes one, as shale.Open does. Nil options are the defaults, but
// with shale.SyncManual, which is how go-ethereum opens its own stores: a write survives the death
// of the process at once, and that of the machine after SyncKeyValue.
func Open(dir string, opts *shale.Options) (Database, error) {
	if opts == nil {
		opts = &shale.Options{Durability: shale.SyncManual}
	}
	db, err := shale.Open(dir, opts)
	return Database{db}, err
}

// Close implements io.Closer. Further calls do nothing.
func (d Database) Close() error {
	if err := d.DB.Close(); !errors.Is(err, shale.ErrClosed) {
		return err
	}
	return nil
}

// Stat implements ethdb.KeyValueStater: a table of the levels, and counters.
func (d Database) Stat() (string, error) { return d.Metrics().String(), nil }

// SyncKeyValue implements ethdb.KeyValueSyncer.
func (d Database) SyncKeyValue() error { return d.Sync() }

// Compact implements ethdb.Compacter. It merges what is in memory, too.
func (d Database) Compact(start, limit []byte) error {
	return d.DB.Compact(context.Background(), shale.Range{Lower: start, Upper: limit})
}

// NewIterator implements ethdb.Iteratee. It shows the state at the time of the call.
func (d Database) NewIterator(prefix, start []byte) ethdb.Iterator {
	r := shale.Prefix(prefix)
	r.Lower = append(r.Lower, start...)
	return iterator{d.DB.NewIterator(r)}
}

// An iterator is shale's, but that it may be asked for keys where there is none.
type iterator struct{ *shale.Iterator }

func (i iterator) Key() []byte {
	if !i.Valid() {
		return nil
	}
	return i.Iterator.Key()
}

func (i iterator) Value() []byte {
	if !i.Valid() {
		return nil
	}
	return i.Iterator.Value()
}

func (i iterator) Error() error { return i.Err() }

func (i iterator) Release() { _ = i.Close() } // it has only read

// A batch is applied whole or not at all. It may have up to shale.MaxBatchSize bytes.
type batch struct {
	shale.Batch
	db   *shale.DB
	size int // of keys and values
}

// NewBatch implements ethdb.Batcher.
func (d Database) NewBatch() ethdb.Batch { return &batch{db: d.DB} }

// NewBatchWithSize implements ethdb.Batcher. The batch grows as needed, whatever the size.
func (d Database) NewBatchWithSize(int) ethdb.Batch { return d.NewBatch() }

// add counts what was added, if err is nil.
func (b *batch) add(err error, key, value []byte) error {
	if err == nil {
		b.size += len(key) + len(value)
	}
	return err
}

func (b *batch) Put(key, value []byte) error { return b.add(b.Batch.Put(key, value), key, value) }

func (b *batch) Delete(key []byte) error { return b.add(b.Batch.Delete(key), key, nil) }

func (b *batch) DeleteRange(start, end []byte) error {
	return b.add(b.Batch.DeleteRange(start, end), start, end)
}

func (b *batch) ValueSize() int { return b.size }

func (b *batch) Write() error { return b.db.Write(context.Background(), &b.Batch) }

func (b *batch) Reset() {
	b.Batch.Reset()
	b.size = 0
}

func (b *batch) Close() { *b = batch{db: b.db} }

// Replay implements ethdb.Batch. A w that gets range deletes has to be an ethdb.KeyValueRangeDeleter.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for op := range b.Ops() {
		var err error
		switch op.Kind {
		case shale.OpPut:
			err = w.Put(op.Key, op.Value)
		case shale.OpDelete:
			err = w.Delete(op.Key)
		case shale.OpDeleteRange:
			deleter, ok := w.(ethdb.KeyValueRangeDeleter)
			if !ok {
				return fmt.Errorf("shaleeth: replay: %T has no DeleteRange, which the batch needs", w)
			}
			err = deleter.DeleteRange(op.Key, op.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Package shalebleve makes shale a store of bleve's index type upsidedown. Importing it registers
// the store under Name:
//
//	index, err := bleve.NewUsing(path, bleve.NewIndexMapping(), upsidedown.Name, shalebleve.Name, nil)
//	index, err := bleve.Open(path) // later; the path remembers the rest
//
// These keys of the configuration count, and have the names that other stores of bleve use for
// them: read_only, nosync (a crash of the machine may take the last 100 ms, but no crash of the
// process takes anything), write_buffer_size and lru_cache_capacity in bytes,
// bloom_filter_bits_per_key.
package shalebleve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/blevesearch/bleve/v2/registry"
	store "github.com/blevesearch/upsidedown_store_api"
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/monitor"
)

// Name is the name under which bleve knows the store.
const Name = "shale"

func init() {
	if err := registry.RegisterKVStore(Name, New); err != nil {
		panic(err) // another package has taken the name
	}
}

// A Store is a store of shale as a KVStore. All methods may be called concurrently.
type Store struct {
	DB *shale.DB // for what the interface does not have, such as Checkpoint

	merging store.MergeOperator // constant

	// writing is held while a batch is executed: what a batch merges must not change between its
	// reading and its writing.
	writing sync.Mutex
}

var _ store.KVStoreStats = (*Store)(nil)

// New opens the store in the directory config["path"]; bleve calls it.
func New(merging store.MergeOperator, config map[string]interface{}) (store.KVStore, error) {
	path, ok := config["path"].(string)
	if !ok || path == "" {
		return nil, fmt.Errorf("shalebleve: the configuration has no path, and an index of store %s needs one: %w", Name, os.ErrInvalid)
	}
	db, err := shale.Open(path, options(config))
	if err != nil {
		return nil, err
	}
	return &Store{DB: db, merging: merging}, nil
}

// options returns the options that a configuration stands for. Its numbers are those of JSON.
func options(config map[string]interface{}) *shale.Options {
	yes := func(key string) bool { v, _ := config[key].(bool); return v }
	number := func(key string) float64 { v, _ := config[key].(float64); return v }
	opts := &shale.Options{
		ReadOnly:     yes("read_only"),
		MemtableSize: int64(number("write_buffer_size")),
		CacheSize:    int64(number("lru_cache_capacity")),
		FilterBits:   number("bloom_filter_bits_per_key"),
	}
	if yes("nosync") {
		opts.Durability = shale.SyncPeriodic
	}
	if create, ok := config["create_if_missing"].(bool); ok && !create {
		opts.Exist = shale.MustExist
	} else if yes("error_if_exists") {
		opts.Exist = shale.MustNotExist
	}
	return opts
}

// Close implements store.KVStore. A second Close returns shale.ErrClosed.
func (s *Store) Close() error { return s.DB.Close() }

// Reader implements store.KVStore. It shows the state at the time of the call.
func (s *Store) Reader() (store.KVReader, error) {
	snapshot, err := s.DB.Snapshot()
	if err != nil {
		return nil, err
	}
	return reader{snapshot}, nil
}

// Writer implements store.KVStore.
func (s *Store) Writer() (store.KVWriter, error) { return writer{s}, s.DB.Err() }

// StatsMap implements store.KVStoreStats. The names are those of the metrics of package debug.
func (s *Store) StatsMap() map[string]interface{} {
	all := map[string]interface{}{}
	state, err := monitor.StateOf(s.DB)
	if err != nil {
		return all // closed
	}
	for _, f := range monitor.Families {
		for at, v := range f.All(&state) {
			name := f.Name
			if f.Label != "" {
				name += "_" + at
			}
			all[name] = v
		}
	}
	return all
}

// Stats implements store.KVStoreStats.
func (s *Store) Stats() json.Marshaler { return stats{s} }

type stats struct{ *Store }

func (s stats) MarshalJSON() ([]byte, error) { return json.Marshal(s.StatsMap()) }

// A reader reads one state of the store.
type reader struct{ *shale.Snapshot }

// Get returns nil for an absent key, and no error.
func (r reader) Get(key []byte) ([]byte, error) {
	value, err := r.Snapshot.Get(key)
	if errors.Is(err, shale.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

func (r reader) MultiGet(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := r.Get(key)
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return values, nil
}

func (r reader) PrefixIterator(prefix []byte) store.KVIterator {
	return r.iterate(shale.Prefix(prefix))
}

func (r reader) RangeIterator(start, end []byte) store.KVIterator {
	return r.iterate(shale.Range{Lower: start, Upper: end})
}

func (r reader) iterate(over shale.Range) store.KVIterator {
	it := r.NewIterator(over)
	it.First()
	return iterator{it}
}

// An iterator never leaves its range.
type iterator struct{ *shale.Iterator }

func (i iterator) Seek(key []byte) { i.SeekGE(key) }

func (i iterator) Next() { i.Iterator.Next() }

func (i iterator) Key() []byte {
	key, _, _ := i.Current()
	return key
}

func (i iterator) Value() []byte {
	_, value, _ := i.Current()
	return value
}

func (i iterator) Current() (key, value []byte, valid bool) {
	if !i.Valid() {
		return nil, nil, false
	}
	return i.Iterator.Key(), i.Iterator.Value(), true
}

// Close also returns the error that ended the last movement, such as that of a damaged block: the
// interface has no other place for it.
func (i iterator) Close() error {
	err := i.Err()
	return errors.Join(err, i.Iterator.Close())
}

// A writer executes batches.
type writer struct{ s *Store }

// A batch is applied whole or not at all. What it merges is merged with the state before it, and
// counts after what it sets and deletes, as in bleve's other stores.
type batch struct {
	changes shale.Batch
	merges  *store.EmulatedMerge
	err     error // the first of the calls that return none
}

func (w writer) NewBatch() store.KVBatch {
	return &batch{merges: store.NewEmulatedMerge(w.s.merging)}
}

func (w writer) NewBatchEx(o store.KVBatchOptions) ([]byte, store.KVBatch, error) {
	return make([]byte, o.TotalBytes), w.NewBatch(), nil
}

func (w writer) Close() error { return nil }

func (w writer) ExecuteBatch(kv store.KVBatch) error {
	b, ok := kv.(*batch)
	if !ok {
		return fmt.Errorf("shalebleve: execute: a batch of type %T is of another store", kv)
	}
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	for key, operands := range b.merges.Merges {
		before, err := w.s.DB.Get([]byte(key))
		if err != nil && !errors.Is(err, shale.ErrNotFound) {
			return err
		}
		after, ok := w.s.merging.FullMerge([]byte(key), before, operands)
		if !ok {
			return fmt.Errorf("shalebleve: execute: %s can't merge %d operands with the value of key %q", w.s.merging.Name(), len(operands), key)
		}
		b.keep(b.changes.Put([]byte(key), after))
	}
	if b.err != nil {
		return b.err
	}
	return w.s.DB.Write(context.Background(), &b.changes)
}

func (b *batch) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *batch) Set(key, value []byte) { b.keep(b.changes.Put(key, value)) }

func (b *batch) Delete(key []byte) { b.keep(b.changes.Delete(key)) }

// Merge copies the value, which EmulatedMerge keeps.
func (b *batch) Merge(key, value []byte) { b.merges.Merge(key, append([]byte{}, value...)) }

func (b *batch) Reset() {
	b.changes.Reset()
	clear(b.merges.Merges)
	b.err = nil
}

func (b *batch) Close() error {
	b.Reset()
	return nil
}

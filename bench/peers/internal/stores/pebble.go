package stores

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

// pebbleStore is Pebble with 10 bits of filter a key on all levels. Its Get
// does not ask the filters of the last level; an iterator can.
type pebbleStore struct {
	db    *pebble.DB
	cache *pebble.Cache
	sync  *pebble.WriteOptions
	apart bool // values of a KiB and more are in files of their own

	change func(*pebble.Options) // changes the options before they are used, if it is not nil
}

// Pebble is the store of Pebble with other options.
type Pebble struct{ pebbleStore }

// NewPebble returns a store whose options change may change before they are used.
func NewPebble(change func(*pebble.Options)) *Pebble {
	return &Pebble{pebbleStore{change: change}}
}

// DB returns the database, from Open to Close.
func (s *Pebble) DB() *pebble.DB { return s.db }

func (s *pebbleStore) Open(dir string, o Options) (err error) {
	// Memtables are charged to the cache. One of a store that is only read
	// starts at 256 KiB.
	memtables := 2 * o.Memtable
	if o.Reading {
		memtables = 512 << 10
	}
	s.cache = pebble.NewCache(o.Cache + o.FilterCache + memtables)
	opts := &pebble.Options{
		Cache: s.cache, MemTableSize: uint64(o.Memtable), Logger: quiet{},
		FormatMajorVersion:          pebble.FormatNewest,
		DisableAutomaticCompactions: !o.Compactions,
	}
	opts.Experimental.ReadSamplingMultiplier = -1 // reads start no compactions
	if !o.Compactions {
		opts.L0CompactionThreshold, opts.L0StopWritesThreshold = 1000, 1000
	}
	for i := range opts.Levels {
		l := &opts.Levels[i]
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.BlockSize = 4 << 10
		l.IndexBlockSize = 256 << 10
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	if s.apart {
		// As the documentation of the options has it, and with the garbage that it gives as an example.
		opts.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
			return pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: 1 << 10, MaxBlobReferenceDepth: 10, TargetGarbageRatio: 0.2}
		}
	}
	if s.change != nil {
		s.change(opts)
	}
	s.sync = pebble.NoSync
	if o.Sync {
		s.sync = pebble.Sync
	}
	if s.db, err = pebble.Open(dir, opts); err != nil {
		s.cache.Unref()
	}
	return err
}

func (s *pebbleStore) Writer() (Writer, error) { return &pebbleWriter{s: s}, nil }

func (s *pebbleStore) Reader(w Way) (Reader, error) {
	if w != Seeking {
		return pebbleGetter{s.db}, nil
	}
	r := &pebbleSeeker{db: s.db}
	return r, r.Refresh()
}

func (s *pebbleStore) Iterator() (Iterator, error) {
	it, err := s.db.NewIter(nil)
	return pebbleIterator{it}, err
}

func (s *pebbleStore) Flush() error { return s.db.Flush() }

// Settle waits for compactions. One that is due starts where another ends; the
// debt that Pebble estimates need not become zero.
func (s *pebbleStore) Settle() error {
	if err := s.Flush(); err != nil {
		return err
	}
	for quiet := 0; quiet < 10; quiet++ {
		if m := s.db.Metrics(); m.Compact.NumInProgress+m.Flush.NumInProgress > 0 {
			quiet = -1
		}
		time.Sleep(settleInterval)
	}
	return nil
}

// Counts takes every 'maybe' of a filter for a false one: it is asked about
// reads of absent keys.
func (s *pebbleStore) Counts() Counts {
	m := s.db.Metrics()
	return Counts{BlockReads: m.BlockCache.Misses, FalsePositives: m.Filter.Misses, PredictedFPR: results.Unknown}
}

func (s *pebbleStore) Levels() ([]results.Level, error) {
	var levels []results.Level
	for i, l := range s.db.Metrics().Levels {
		if l.TablesCount > 0 {
			levels = append(levels, results.Level{Level: i, Runs: int(l.Sublevels), Tables: int(l.TablesCount), Bytes: l.TablesSize})
		}
	}
	return levels, nil
}

func (s *pebbleStore) Close() error {
	err := s.db.Close()
	s.cache.Unref()
	return err
}

type pebbleWriter struct {
	s     *pebbleStore
	batch *pebble.Batch
}

func (w *pebbleWriter) Put(key, value []byte) error { return w.s.db.Set(key, value, w.s.sync) }
func (w *pebbleWriter) Delete(key []byte) error     { return w.s.db.Delete(key, w.s.sync) }

func (w *pebbleWriter) DeleteRange(lower, upper []byte) error {
	return w.s.db.DeleteRange(lower, upper, w.s.sync)
}

func (w *pebbleWriter) Batch(n int, entry func() (key, value []byte)) error {
	if w.batch == nil {
		w.batch = w.s.db.NewBatch()
	}
	for range n {
		key, value := entry()
		if err := w.batch.Set(key, value, nil); err != nil {
			return err
		}
	}
	if err := w.batch.Commit(w.s.sync); err != nil {
		return err
	}
	w.batch.Reset()
	return nil
}

func (w *pebbleWriter) Close() error {
	if w.batch == nil {
		return nil
	}
	return w.batch.Close()
}

type pebbleGetter struct{ db *pebble.DB }

func (r pebbleGetter) Get(key []byte) (int, uint64, error) {
	value, closer, err := r.db.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return Absent, 0, nil
		}
		return 0, 0, err
	}
	size, tag, _ := found(value)
	return size, tag, closer.Close()
}

func (r pebbleGetter) Refresh() error { return nil }
func (r pebbleGetter) Close() error   { return nil }

type pebbleSeeker struct {
	db *pebble.DB
	it *pebble.Iterator
}

func (r *pebbleSeeker) Get(key []byte) (int, uint64, error) {
	if !r.it.SeekPrefixGE(key) || !bytes.Equal(r.it.Key(), key) {
		return Absent, 0, r.it.Error()
	}
	value, err := r.it.ValueAndErr()
	if err != nil {
		return 0, 0, err
	}
	return found(value)
}

// Refresh makes the iterator, once: it is used where nothing is written.
func (r *pebbleSeeker) Refresh() (err error) {
	if r.it == nil {
		r.it, err = r.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	}
	return err
}

func (r *pebbleSeeker) Close() error { return r.it.Close() }

type pebbleIterator struct{ *pebble.Iterator }

func (it pebbleIterator) Value() ([]byte, error) { return it.ValueAndErr() }

// quiet drops what Pebble logs.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

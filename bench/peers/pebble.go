package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// pebbleStore is Pebble with 10 bits of filter a key on all levels. Its Get
// does not ask the filters of the last level; an iterator can.
type pebbleStore struct {
	db    *pebble.DB
	cache *pebble.Cache
}

func (s *pebbleStore) name() string { return "pebble" }

func (s *pebbleStore) open(dir string, m mode) (err error) {
	// Memtables are charged to the cache. One of a store that is only read
	// starts at 256 KiB.
	memtables := 2 * m.memtable
	if m.reading {
		memtables = 512 << 10
	}
	s.cache = pebble.NewCache(m.cache + m.filterCache + memtables)
	opts := &pebble.Options{
		Cache: s.cache, MemTableSize: uint64(m.memtable), Logger: quiet{},
		FormatMajorVersion:          pebble.FormatNewest,
		DisableAutomaticCompactions: !m.compactions,
	}
	opts.Experimental.ReadSamplingMultiplier = -1 // reads start no compactions
	if !m.compactions {
		opts.L0CompactionThreshold, opts.L0StopWritesThreshold = 1000, 1000
	}
	for i := range opts.Levels {
		l := &opts.Levels[i]
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.BlockSize = 4 << 10
		l.IndexBlockSize = 256 << 10
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	if s.db, err = pebble.Open(dir, opts); err != nil {
		s.cache.Unref()
	}
	return err
}

func (s *pebbleStore) put(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

func (s *pebbleStore) flush() error { return s.db.Flush() }

// settle waits for compactions. One that is due starts where another ends; the
// debt that Pebble estimates need not become zero.
func (s *pebbleStore) settle() error {
	if err := s.flush(); err != nil {
		return err
	}
	for quiet := 0; quiet < 10; quiet++ {
		if m := s.db.Metrics(); m.Compact.NumInProgress+m.Flush.NumInProgress > 0 {
			quiet = -1
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func (s *pebbleStore) ways() []way {
	return []way{
		{"pebble, Get", func() (reader, error) { return pebbleGetter{s.db}, nil }},
		{"pebble, UseL6Filters", func() (reader, error) {
			it, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
			return pebbleSeeker{it}, err
		}},
	}
}

// counts takes every 'maybe' of a filter for a false one: it is asked about
// reads of absent keys.
func (s *pebbleStore) counts() counts {
	m := s.db.Metrics()
	return counts{blockReads: m.BlockCache.Misses, falsePositives: m.Filter.Misses, predicted: unknown}
}

func (s *pebbleStore) levels() ([]level, error) {
	var levels []level
	for i, l := range s.db.Metrics().Levels {
		if l.TablesCount > 0 {
			levels = append(levels, level{Level: i, Runs: int(l.Sublevels), Tables: int(l.TablesCount), Bytes: l.TablesSize})
		}
	}
	return levels, nil
}

func (s *pebbleStore) close() error {
	err := s.db.Close()
	s.cache.Unref()
	return err
}

type pebbleGetter struct{ db *pebble.DB }

func (r pebbleGetter) get(key []byte) (int, error) {
	value, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return absent, nil
	}
	if err != nil {
		return 0, err
	}
	return len(value), closer.Close()
}

func (r pebbleGetter) close() error { return nil }

type pebbleSeeker struct{ it *pebble.Iterator }

func (r pebbleSeeker) get(key []byte) (int, error) {
	if !r.it.SeekPrefixGE(key) || !bytes.Equal(r.it.Key(), key) {
		return absent, r.it.Error()
	}
	value, err := r.it.ValueAndErr()
	return len(value), err
}

func (r pebbleSeeker) close() error { return r.it.Close() }

// quiet drops what Pebble logs.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

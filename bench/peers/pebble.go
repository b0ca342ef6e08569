package main

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// pebbleStore is Pebble with 10 bits of filter a key on all levels. Its Get
// does not ask the filters of the last level; filtered reads through an
// iterator that does.
type pebbleStore struct {
	c        config
	filtered bool
	db       *pebble.DB
	it       *pebble.Iterator
	cache    *pebble.Cache
}

func newPebble(c config, filtered bool) *pebbleStore { return &pebbleStore{c: c, filtered: filtered} }

func (s *pebbleStore) name() string {
	if s.filtered {
		return "pebble, UseL6Filters"
	}
	return "pebble, Get"
}

func (s *pebbleStore) open(dir string) (err error) {
	s.cache = pebble.NewCache(s.c.cache + 2*s.c.memtable) // memtables are charged to it
	opts := &pebble.Options{Cache: s.cache, MemTableSize: uint64(s.c.memtable), Logger: quiet{}}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	s.db, err = pebble.Open(dir, opts)
	return err
}

func (s *pebbleStore) put(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

func (s *pebbleStore) settle() error {
	if err := s.db.Flush(); err != nil {
		return err
	}
	for quiet := 0; quiet < 5; quiet++ {
		if m := s.db.Metrics(); m.Compact.NumInProgress > 0 || m.Compact.EstimatedDebt > 0 && quiet < 4 && m.Compact.NumInProgress > 0 {
			quiet = -1
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func (s *pebbleStore) get(key []byte) (bool, error) {
	if s.filtered {
		return s.seek(key)
	}
	_, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

func (s *pebbleStore) seek(key []byte) (bool, error) {
	if s.it == nil {
		it, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
		if err != nil {
			return false, err
		}
		s.it = it
	}
	return s.it.SeekPrefixGE(key) && string(s.it.Key()) == string(key), s.it.Error()
}

func (s *pebbleStore) close() error {
	if s.it != nil {
		if err := s.it.Close(); err != nil {
			return err
		}
	}
	if s.filtered {
		return nil // the other one closes the store
	}
	err := s.db.Close()
	s.cache.Unref()
	return err
}

// quiet drops what Pebble logs.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(format)
}

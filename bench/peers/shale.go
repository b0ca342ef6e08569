package main

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale"
)

type shaleStore struct {
	c   config
	db  *shale.DB
	buf []byte
}

func newShale(c config) *shaleStore { return &shaleStore{c: c} }

func (s *shaleStore) name() string { return "shale" }

func (s *shaleStore) open(dir string) (err error) {
	s.db, err = shale.Open(dir, &shale.Options{
		MemtableSize: s.c.memtable, CacheSize: s.c.cache, Durability: shale.SyncManual,
	})
	return err
}

func (s *shaleStore) put(key, value []byte) error { return s.db.Put(key, value) }

func (s *shaleStore) settle() error {
	if err := s.db.Flush(context.Background()); err != nil {
		return err
	}
	for quiet := 0; quiet < 5; quiet++ {
		if m := s.db.Metrics(); m.Compacting+m.Flushing > 0 {
			quiet = -1
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func (s *shaleStore) get(key []byte) (bool, error) {
	var err error
	s.buf, err = s.db.AppendValue(s.buf[:0], key)
	if errors.Is(err, shale.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *shaleStore) close() error { return s.db.Close() }

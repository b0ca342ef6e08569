package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
)

// shaleStore is shale with 10 bits of filter a key on average, its default.
type shaleStore struct{ db *shale.DB }

func (s *shaleStore) name() string { return "shale" }

func (s *shaleStore) open(dir string, m mode) (err error) {
	opts := &shale.Options{MemtableSize: m.memtable, CacheSize: m.cache, FilterBits: 10, Durability: shale.SyncManual}
	if !m.compactions {
		opts.CompactionWorkers = -1
	}
	s.db, err = shale.Open(dir, opts)
	return err
}

func (s *shaleStore) put(key, value []byte) error { return s.db.Put(key, value) }

func (s *shaleStore) flush() error { return s.db.Flush(context.Background()) }

// debtPatience is how long compactions that are due may take to start.
const debtPatience = time.Minute

func (s *shaleStore) settle() error {
	if err := s.flush(); err != nil {
		return err
	}
	busy := time.Now()
	for quiet := 0; quiet < 5; quiet++ {
		m := s.db.Metrics()
		if err := s.db.Err(); err != nil {
			return err
		}
		if m.Compacting+m.Flushing > 0 {
			quiet, busy = -1, time.Now()
		} else if m.CompactionDebt > 0 {
			quiet = -1
			if time.Since(busy) > debtPatience {
				return fmt.Errorf("compactions of %d bytes are due, and none has run for %v", m.CompactionDebt, debtPatience)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func (s *shaleStore) ways() []way {
	return []way{{"shale", func() (reader, error) { return &shaleReader{db: s.db}, nil }}}
}

func (s *shaleStore) counts() counts {
	m := s.db.Metrics()
	return counts{
		blockReads:     int64(m.BlockReads),
		falsePositives: int64(m.FilterFalsePositive + m.FalsePositivesRemembered),
		predicted:      m.PredictedFPR(),
	}
}

func (s *shaleStore) levels() ([]level, error) {
	var levels []level
	for _, l := range s.db.Metrics().Levels {
		if l.Tables > 0 {
			levels = append(levels, level{l.Level, l.Runs, l.Tables, l.Bytes, l.Entries, l.FilterBits, l.KeyShare * l.PredictedFPR})
		}
	}
	return levels, nil
}

func (s *shaleStore) close() error { return s.db.Close() }

type shaleReader struct {
	db  *shale.DB
	buf []byte
}

func (r *shaleReader) get(key []byte) (int, error) {
	var err error
	r.buf, err = r.db.AppendValue(r.buf[:0], key)
	if errors.Is(err, shale.ErrNotFound) {
		return absent, nil
	}
	return len(r.buf), err
}

func (r *shaleReader) close() error { return nil }

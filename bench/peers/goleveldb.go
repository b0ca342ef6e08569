package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

// goleveldbStore is goleveldb with its Bloom filter of 10 bits a key.
type goleveldbStore struct{ db *leveldb.DB }

func (s *goleveldbStore) name() string { return "goleveldb" }

func (s *goleveldbStore) open(dir string, m mode) (err error) {
	opts := &opt.Options{
		Filter:                 filter.NewBloomFilter(10),
		BlockCacheCapacity:     int(m.cache + m.filterCache),
		OpenFilesCacheCapacity: 10_000, // all of them
		WriteBuffer:            int(m.memtable),
		Compression:            opt.SnappyCompression,
		ReadOnly:               m.reading, // else lookups start compactions, see seeks in LevelDB
	}
	if !m.compactions {
		opts.CompactionL0Trigger, opts.WriteL0SlowdownTrigger, opts.WriteL0PauseTrigger = math.MaxInt32, math.MaxInt32, math.MaxInt32
	}
	s.db, err = leveldb.OpenFile(dir, opts)
	return err
}

func (s *goleveldbStore) put(key, value []byte) error { return s.db.Put(key, value, nil) }

// flush has no call of its own: a transaction begins with one.
func (s *goleveldbStore) flush() error {
	t, err := s.db.OpenTransaction()
	if err != nil {
		return err
	}
	t.Discard()
	return nil
}

// settle waits until every level is below its limit and nothing has been read
// or written for a second: goleveldb does not tell of running compactions.
func (s *goleveldbStore) settle() error {
	if err := s.flush(); err != nil {
		return err
	}
	const interval = 20 * time.Millisecond
	var before leveldb.DBStats
	for quiet := time.Duration(0); quiet < time.Second; quiet += interval {
		var now leveldb.DBStats
		if err := s.db.Stats(&now); err != nil {
			return err
		}
		levels, err := s.levels()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(levels, compactionDue) || now.IOWrite != before.IOWrite || now.IORead != before.IORead {
			quiet = -interval
		}
		before = now
		time.Sleep(interval)
	}
	return nil
}

func compactionDue(l level) bool {
	var o *opt.Options // the defaults
	if l.Level == 0 {
		return l.Tables >= o.GetCompactionL0Trigger()
	}
	return l.Bytes >= o.GetCompactionTotalSize(l.Level)
}

func (s *goleveldbStore) ways() []way {
	return []way{{"goleveldb", func() (reader, error) { return goleveldbReader{s.db}, nil }}}
}

func (s *goleveldbStore) counts() counts { return counts{unknown, unknown, unknown} }

// levels reads the table that goleveldb prints. Its Stats leave out empty
// levels without saying which.
func (s *goleveldbStore) levels() ([]level, error) {
	stats, err := s.db.GetProperty("leveldb.stats")
	if err != nil {
		return nil, err
	}
	var levels []level
	for line := range strings.Lines(stats) {
		var l level
		var mib float64
		if n, _ := fmt.Sscanf(line, "%d | %d | %f", &l.Level, &l.Tables, &mib); n < 3 || l.Tables == 0 {
			continue
		}
		l.Bytes, l.Runs = int64(mib*(1<<20)), 1
		if l.Level == 0 {
			l.Runs = l.Tables
		}
		levels = append(levels, l)
	}
	return levels, nil
}

func (s *goleveldbStore) close() error { return s.db.Close() }

type goleveldbReader struct{ db *leveldb.DB }

func (r goleveldbReader) get(key []byte) (int, error) {
	value, err := r.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return absent, nil
	}
	return len(value), err
}

func (r goleveldbReader) close() error { return nil }

package stores

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

// goleveldbStore is goleveldb with its Bloom filter of 10 bits a key.
type goleveldbStore struct {
	db    *leveldb.DB
	write *opt.WriteOptions
	quiet time.Duration
}

func (s *goleveldbStore) Open(dir string, o Options) (err error) {
	opts := &opt.Options{
		Filter:                 filter.NewBloomFilter(10),
		BlockCacheCapacity:     int(o.Cache + o.FilterCache),
		OpenFilesCacheCapacity: 10_000, // all of them
		WriteBuffer:            int(o.Memtable),
		Compression:            opt.SnappyCompression,
		DisableSeeksCompaction: true, // else lookups start compactions
		ReadOnly:               o.Reading,
	}
	if !o.Compactions {
		opts.CompactionL0Trigger, opts.WriteL0SlowdownTrigger, opts.WriteL0PauseTrigger = math.MaxInt32, math.MaxInt32, math.MaxInt32
	}
	s.write, s.quiet = &opt.WriteOptions{Sync: o.Sync}, o.Quiet
	s.db, err = leveldb.OpenFile(dir, opts)
	return err
}

func (s *goleveldbStore) Writer() (Writer, error)    { return &goleveldbWriter{s: s}, nil }
func (s *goleveldbStore) Reader(Way) (Reader, error) { return goleveldbReader{s.db}, nil }

func (s *goleveldbStore) Iterator() (Iterator, error) {
	return goleveldbIterator{s.db.NewIterator(nil, nil)}, nil
}

// Flush has no call of its own: a transaction begins with one.
func (s *goleveldbStore) Flush() error {
	t, err := s.db.OpenTransaction()
	if err != nil {
		return err
	}
	t.Discard()
	return nil
}

// Settle waits until every level is below its limit and nothing has been read
// or written for a while: goleveldb does not tell of running compactions.
func (s *goleveldbStore) Settle() error {
	if err := s.Flush(); err != nil {
		return err
	}
	var before leveldb.DBStats
	for quiet := time.Duration(0); quiet < s.quiet; quiet += settleInterval {
		var now leveldb.DBStats
		if err := s.db.Stats(&now); err != nil {
			return err
		}
		levels, err := s.Levels()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(levels, compactionDue) || now.IOWrite != before.IOWrite || now.IORead != before.IORead {
			quiet = -settleInterval
		}
		before = now
		time.Sleep(settleInterval)
	}
	return nil
}

func compactionDue(l results.Level) bool {
	var o *opt.Options // the defaults
	if l.Level == 0 {
		return l.Tables >= o.GetCompactionL0Trigger()
	}
	return l.Bytes >= o.GetCompactionTotalSize(l.Level)
}

func (s *goleveldbStore) Counts() Counts { return unknownCounts }

// Levels reads the table that goleveldb prints. Its Stats leave out empty
// levels without saying which.
func (s *goleveldbStore) Levels() ([]results.Level, error) {
	stats, err := s.db.GetProperty("leveldb.stats")
	if err != nil {
		return nil, err
	}
	var levels []results.Level
	for line := range strings.Lines(stats) {
		var l results.Level
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

func (s *goleveldbStore) Close() error { return s.db.Close() }

type goleveldbWriter struct {
	s     *goleveldbStore
	batch leveldb.Batch
}

func (w *goleveldbWriter) Put(key, value []byte) error { return w.s.db.Put(key, value, w.s.write) }
func (w *goleveldbWriter) Delete(key []byte) error     { return w.s.db.Delete(key, w.s.write) }
func (w *goleveldbWriter) Close() error                { return nil }

func (w *goleveldbWriter) Batch(n int, entry func() (key, value []byte)) error {
	w.batch.Reset()
	for range n {
		w.batch.Put(entry())
	}
	return w.s.db.Write(&w.batch, w.s.write)
}

type goleveldbReader struct{ db *leveldb.DB }

func (r goleveldbReader) Get(key []byte) (int, uint64, error) {
	value, err := r.db.Get(key, nil)
	if err != nil {
		if errors.Is(err, leveldb.ErrNotFound) {
			return Absent, 0, nil
		}
		return 0, 0, err
	}
	return found(value)
}

func (r goleveldbReader) Refresh() error { return nil }
func (r goleveldbReader) Close() error   { return nil }

type goleveldbIterator struct{ iterator.Iterator }

func (it goleveldbIterator) SeekGE(key []byte) bool { return it.Seek(key) }
func (it goleveldbIterator) Value() ([]byte, error) { return it.Iterator.Value(), nil }

func (it goleveldbIterator) Close() error {
	it.Release()
	return it.Error()
}

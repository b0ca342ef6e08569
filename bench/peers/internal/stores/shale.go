package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
)

// shaleStore is shale with 10 bits of filter a key on average, its default.
type shaleStore struct{ db *shale.DB }

func (s *shaleStore) Open(dir string, o Options) (err error) {
	opts := &shale.Options{MemtableSize: o.Memtable, CacheSize: o.Cache, FilterBits: 10, Durability: shale.SyncManual}
	if o.Sync {
		opts.Durability = shale.SyncEach
	}
	if !o.Compactions {
		opts.CompactionWorkers = -1
	}
	if s.db, err = shale.Open(dir, opts); err != nil {
		return err
	}
	for !o.Hasty && s.db.Metrics().Loading { // lookups are measured with all filters in memory
		time.Sleep(settleInterval)
	}
	return nil
}

func (s *shaleStore) Writer() (Writer, error) { return &shaleWriter{db: s.db}, nil }
func (s *shaleStore) Iterator() (Iterator, error) {
	return shaleIterator{s.db.NewIterator(shale.Range{})}, nil
}
func (s *shaleStore) Flush() error { return s.db.Flush(context.Background()) }
func (s *shaleStore) Close() error { return s.db.Close() }

// debtPatience is how long compactions that are due may take to start.
const debtPatience = time.Minute

func (s *shaleStore) Settle() error {
	if err := s.Flush(); err != nil {
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
		time.Sleep(settleInterval)
	}
	return nil
}

// settleInterval is the time between two looks at a store that settles.
const settleInterval = 20 * time.Millisecond

func (s *shaleStore) Counts() Counts {
	m := s.db.Metrics()
	return Counts{
		BlockReads:     int64(m.BlockReads),
		FalsePositives: int64(m.FilterFalsePositive + m.FalsePositivesRemembered),
		PredictedFPR:   m.PredictedFPR(),
	}
}

func (s *shaleStore) Levels() ([]results.Level, error) {
	var levels []results.Level
	for _, l := range s.db.Metrics().Levels {
		if l.Tables > 0 {
			levels = append(levels, results.Level{
				Level: l.Level, Runs: l.Runs, Tables: l.Tables, Bytes: l.Bytes,
				Entries: l.Entries, FilterBits: l.FilterBits, PredictedFPR: l.KeyShare * l.PredictedFPR,
			})
		}
	}
	return levels, nil
}

type shaleWriter struct {
	db    *shale.DB
	batch shale.Batch
}

func (w *shaleWriter) Put(key, value []byte) error { return w.db.Put(key, value) }
func (w *shaleWriter) Delete(key []byte) error     { return w.db.Delete(key) }
func (w *shaleWriter) Close() error                { return nil }

func (w *shaleWriter) DeleteRange(lower, upper []byte) error { return w.db.DeleteRange(lower, upper) }
func (w *shaleWriter) PutTTL(key, value []byte, ttl time.Duration) error {
	return w.db.PutTTL(key, value, ttl)
}

func (w *shaleWriter) Batch(n int, entry func() (key, value []byte)) error {
	w.batch.Reset()
	for range n {
		if err := w.batch.Put(entry()); err != nil {
			return err
		}
	}
	return w.db.Write(context.Background(), &w.batch)
}

func (s *shaleStore) Reader(Way) (Reader, error) {
	r := data.Apart[shaleReader]()
	r.db, r.buf = s.db, data.BytesApart(readBuffer)
	return r, nil
}

type shaleReader struct {
	db  *shale.DB
	buf []byte
}

func (r *shaleReader) Get(key []byte) (int, uint64, error) {
	var err error
	r.buf, err = r.db.AppendValue(r.buf[:0], key)
	if err != nil {
		if errors.Is(err, shale.ErrNotFound) {
			return Absent, 0, nil
		}
		return 0, 0, err
	}
	return found(r.buf)
}

func (r *shaleReader) GetMany(keys [][]byte) (present int, err error) {
	err = r.db.GetMany(keys, func(_ int, _ []byte, found bool) error {
		if found {
			present++
		}
		return nil
	})
	return present, err
}

func (r *shaleReader) Refresh() error { return nil }
func (r *shaleReader) Close() error   { return nil }

type shaleIterator struct{ *shale.Iterator }

func (it shaleIterator) Value() ([]byte, error) { return it.Iterator.Value(), nil }
func (it shaleIterator) Close() error           { return errors.Join(it.Err(), it.Iterator.Close()) }

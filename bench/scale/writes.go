package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/shaledb/shale"
)

// Keys that are written have first bytes that no key of a store has, and that are above
// them: all keys of a store begin with a hexadecimal digit.
const (
	putPrefix    = "p"
	ingestPrefix = "i"
)

// timed returns how long call takes, in seconds.
func timed(call func() error) ([]float64, error) {
	begin := time.Now()
	err := call()
	return []float64{time.Since(begin).Seconds()}, err
}

// put writes the next key.
func (s *session) put() error {
	s.written++
	var buf [1 + keySize]byte
	k := key(append(buf[:0], putPrefix...), int(s.written&0xffff), 0)
	return s.db.Put(k, k[:keysValue])
}

func (s *session) puts() ([]float64, error) { return s.perCall(s.put) }

// flushes measures flushes of one key, Metrics of the version that a flush makes, and
// compactions of its table into the last level, whose run is the longest.
func (s *session) flushes() ([]float64, error) {
	if err := s.db.Flush(s.ctx); err != nil {
		return nil, err
	}
	s.db.Metrics() // the first call of all sums up rates over all tables
	return s.each(func() ([]float64, error) {
		if err := s.put(); err != nil {
			return nil, err
		}
		flush, err := timed(func() error { return s.db.Flush(s.ctx) })
		if err != nil {
			return nil, err
		}
		// The first call for a version makes estimates that later calls use again.
		metrics, _ := timed(func() error { s.db.Metrics(); return nil })
		compact, err := timed(func() error { return s.db.Compact(s.ctx, shale.Prefix(putPrefix)) })
		return append(append(flush, metrics...), compact...), err
	})
}

// alone is how long Puts are measured with nothing next to them.
const alone = 100 * time.Millisecond

func (s *session) putsAlone() ([]float64, error) {
	return s.each(func() ([]float64, error) {
		figures, err := s.nextToPuts(func() error { time.Sleep(alone); return nil })
		if err != nil {
			return nil, err
		}
		return figures[1:], nil
	})
}

// checkpoints measures checkpoints, and the longest Put next to one.
func (s *session) checkpoints() ([]float64, error) {
	dir := filepath.Join(filepath.Dir(s.path), "checkpoint")
	return s.each(func() ([]float64, error) {
		if err := os.RemoveAll(dir); err != nil { // of a run that was interrupted
			return nil, err
		}
		figures, err := s.nextToPuts(func() error { return s.db.Checkpoint(dir) })
		return figures, errors.Join(err, os.RemoveAll(dir))
	})
}

func (s *session) ingestsOne() ([]float64, error)  { return s.ingests(1) }
func (s *session) ingestsMany() ([]float64, error) { return s.ingests(1000) }

// ingests measures ingestions of n small tables, which go to the end of the last level, and
// the longest Put next to one.
func (s *session) ingests(n int) ([]float64, error) {
	return s.each(func() ([]float64, error) {
		return s.nextToPuts(func() error { return s.db.Ingest(s.ctx, s.fresh(n*keysPerTable)) })
	})
}

// fresh yields n keys above all that were ingested before.
func (s *session) fresh(n int) iter.Seq2[[]byte, []byte] {
	small := spec{tables: 1}
	begin := s.ingested
	s.ingested += n
	return func(yield func(k, v []byte) bool) {
		var k, v []byte
		for i := begin; i < begin+n; i++ {
			k = key(append(k[:0], ingestPrefix...), i, 0)
			v = small.value(v[:0], i)
			if !yield(k, v) {
				return
			}
		}
	}
}

// between is the time from one Put of nextToPuts to the next. So the memtable gets only a
// few keys, and no Put waits for its own writes to be flushed.
const between = 50 * time.Microsecond

// nextToPuts returns how long call takes, and the longest of the Puts of another goroutine
// meanwhile, in seconds.
func (s *session) nextToPuts(call func() error) ([]float64, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var longest time.Duration
	var failed error
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			begin := time.Now()
			failed = s.put()
			longest = max(longest, time.Since(begin))
			if failed != nil || ctx.Err() != nil {
				return
			}
			time.Sleep(between)
		}
	})
	took, err := timed(call)
	cancel()
	writer.Wait()
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("a Put next to it: %w", failed))
	}
	return append(took, longest.Seconds()), err
}

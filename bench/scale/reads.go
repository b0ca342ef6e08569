package main

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

// hot is how many keys the rows of lookups ask for, spread evenly over the store. They are
// few, so that what they need is in the processor's caches in a store of any size. What is
// left is the work that a lookup does.
const hot = 1024

// anywhere is how many keys there are where the filters of all tables are read, from memory.
const anywhere = 1 << 16

// sample returns n keys, spread over the store: present ones, or absent ones that lie
// between them.
func (s *session) sample(n int, present bool) [][]byte {
	sample := make([][]byte, n)
	for i := range sample {
		// The number is about i parts of n, and differs in its last digits, so that one key
		// of upperShare is in the upper level.
		number := int(float64(i) / float64(n) * float64(s.keys-upperShare))
		number += i % upperShare
		nth := 0
		if !present {
			nth = 1 + i%3
		}
		sample[i] = key(nil, number, nth)
	}
	shuffle(sample)
	return sample
}

// shuffle puts keys into an order that is the same in each run, but no order of keys.
func shuffle(keys [][]byte) {
	for i := len(keys) - 1; i > 0; i-- {
		j := int(mix(uint64(i)) % uint64(i+1))
		keys[i], keys[j] = keys[j], keys[i]
	}
}

// inTurns returns a call of fn with the next key of a sample. It calls fn with each of them
// once before, so that all blocks are in the cache.
func inTurns(sample [][]byte, fn func(key []byte) error) (func() error, error) {
	for _, k := range sample {
		if err := fn(k); err != nil {
			return nil, err
		}
	}
	next := 0
	return func() error {
		k := sample[next]
		if next++; next == len(sample) {
			next = 0
		}
		return fn(k)
	}, nil
}

// lookups measures lookups of a sample.
func (s *session) lookups(n int, present bool) ([]float64, error) {
	var value []byte
	call, err := inTurns(s.sample(n, present), func(key []byte) error {
		var err error
		value, err = s.db.AppendValue(value[:0], key)
		if found := err == nil; found != present && (found || errors.Is(err, shale.ErrNotFound)) {
			return fmt.Errorf("key %q is found: %t, want %t", key, found, present)
		}
		if errors.Is(err, shale.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.perCall(call)
}

func (s *session) hits() ([]float64, error)           { return s.lookups(hot, true) }
func (s *session) misses() ([]float64, error)         { return s.lookups(hot, false) }
func (s *session) missesAnywhere() ([]float64, error) { return s.lookups(anywhere, false) }

// seeks measures the movements of one iterator.
func (s *session) seeks() (figures []float64, err error) {
	it := s.db.NewIterator(shale.Range{})
	defer func() { err = errors.Join(err, it.Close()) }()
	call, err := inTurns(s.sample(hot, true), func(key []byte) error {
		if !it.SeekGE(key) {
			return fmt.Errorf("no key from %q up: %w", key, it.Err())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.perCall(call)
}

func (s *session) iterators() ([]float64, error) {
	return s.perCall(func() error { return s.db.NewIterator(shale.Range{}).Close() })
}

func (s *session) snapshots() ([]float64, error) {
	return s.perCall(func() error {
		snap, err := s.db.Snapshot()
		if err != nil {
			return err
		}
		return snap.Close()
	})
}

func (s *session) metrics() ([]float64, error) {
	return s.perCall(func() error { return s.check(s.db.Metrics()) })
}

func (s *session) tables() ([]float64, error) {
	return s.perCall(func() error {
		if n := len(s.db.Tables()); n == 0 || s.spec.tables > 0 && n != s.spec.tables {
			return fmt.Errorf("there are %d tables, want %d", n, s.spec.tables)
		}
		return nil
	})
}

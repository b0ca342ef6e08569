package main

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale"
)

const (
	// spots and near say which keys lookups ask for: near neighbours at each of a few spots,
	// spread evenly over the store. They lie in few tables. So the
	// processor's caches hold what they need, however large the store is, and only the work of
	// a lookup is measured.
	spots = 32
	near  = 32
	// anywhere is the number of spots, with one key each, where lookups ask for keys all over
	// the store. They read the filters of all tables, and what leads to them, from memory.
	anywhere = 1 << 16
)

// sample returns n keys at each of some spots: present keys, or absent ones between them. One
// key of upperShare is in the upper level, or next to a key that is.
func (s *session) sample(spots, n int, present bool) [][]byte {
	var sample [][]byte
	for spot := range spots {
		// With a single key at a spot, its last digit changes from spot to spot.
		first := int(float64(spot)/float64(spots)*float64(s.keys-n-upperShare)) + spot%upperShare
		for i := range n {
			nth := 0
			if !present {
				nth = 1 + (spot+i)%3
			}
			sample = append(sample, key(nil, first+i, nth))
		}
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
func (s *session) lookups(sample [][]byte, present bool) ([]float64, error) {
	var value []byte
	call, err := inTurns(sample, func(key []byte) error {
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

func (s *session) hits() ([]float64, error) {
	return s.lookups(s.sample(spots, near, true), true)
}

func (s *session) misses() ([]float64, error) {
	return s.lookups(s.sample(spots, near, false), false)
}

func (s *session) missesAnywhere() ([]float64, error) {
	return s.lookups(s.sample(anywhere, 1, false), false)
}

// seeks measures the movements of one iterator.
func (s *session) seeks() (figures []float64, err error) {
	it := s.db.NewIterator(shale.Range{})
	defer func() { err = errors.Join(err, it.Close()) }()
	call, err := inTurns(s.sample(spots, near, true), func(key []byte) error {
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

// tables measures Tables. A list of all tables takes time in proportion to their number, so
// the figure is for each of them.
func (s *session) tables() ([]float64, error) {
	n := 0
	figures, err := s.perCall(func() error {
		if n = len(s.db.Inspect().Tables()); n == 0 || s.spec.tables > 0 && n != s.spec.tables {
			return fmt.Errorf("there are %d tables, want %d", n, s.spec.tables)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []float64{figures[0] / float64(n)}, nil
}

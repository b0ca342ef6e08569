package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A contestant is an open store, read in one way.
type contestant struct {
	store   store
	way     way
	closes  bool // the store, after its readers
	readers []reader
}

// A sample is what one round of one workload cost.
type sample struct {
	nanos   float64 // a lookup, of each reader
	lookups int
	allocs  float64
	reads   float64 // read calls of the process
	counts  counts  // what the engine counted meanwhile; predicted is as of now
}

// need makes readers until there are as many.
func (c *contestant) need(readers int) error {
	for len(c.readers) < readers {
		r, err := c.way.reader()
		if err != nil {
			return err
		}
		c.readers = append(c.readers, r)
	}
	return nil
}

// ask looks every key up, with each reader its share of them.
func (c *contestant) ask(slab keys.Slab, readers int) (time.Duration, error) {
	if err := c.need(readers); err != nil {
		return 0, err
	}
	if readers == 1 {
		begin := time.Now()
		err := lookUp(c.readers[0], slab)
		return time.Since(begin), err
	}
	errs := make([]error, readers)
	var wg sync.WaitGroup
	begin := time.Now()
	for i, r := range c.readers[:readers] {
		wg.Go(func() { errs[i] = lookUp(r, slab.Part(i, readers)) })
	}
	wg.Wait()
	return time.Since(begin), errors.Join(errs...)
}

// lookUp asks for every key and ends at the first wrong answer.
func lookUp(r reader, slab keys.Slab) error {
	want := valueSize
	if slab.Absent() {
		want = absent
	}
	for i := range slab.Len() {
		size, err := r.get(slab.Key(i))
		if err != nil {
			return fmt.Errorf("get %q: %w", slab.Key(i), err)
		}
		if size != want {
			return fmt.Errorf("wrong answer for %q: size %d, want %d (%d: absent)", slab.Key(i), size, want, absent)
		}
	}
	return nil
}

// measure asks for all keys and says what that cost.
func (c *contestant) measure(slab keys.Slab, readers int) (sample, error) {
	if err := c.need(readers); err != nil {
		return sample{}, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	counted, calls := c.store.counts(), readCalls()
	runtime.ReadMemStats(&before)
	took, err := c.ask(slab, readers)
	if err != nil {
		return sample{}, err
	}
	runtime.ReadMemStats(&after)
	n := slab.Len()
	return sample{
		nanos:   float64(took) * float64(readers) / float64(n),
		lookups: n,
		allocs:  float64(after.Mallocs - before.Mallocs),
		reads:   callsSince(calls),
		counts:  c.store.counts().sub(counted),
	}, nil
}

func callsSince(before int64) float64 {
	now := readCalls()
	if before == unknown || now == unknown {
		return unknown
	}
	return float64(now - before - 1)
}

// sub returns what was counted since an earlier call.
func (n counts) sub(earlier counts) counts {
	if n.blockReads != unknown {
		n.blockReads -= earlier.blockReads
	}
	if n.falsePositives != unknown {
		n.falsePositives -= earlier.falsePositives
	}
	return n
}

func (c *contestant) close() error {
	var errs []error
	for _, r := range c.readers {
		errs = append(errs, r.close())
	}
	if c.closes {
		errs = append(errs, c.store.close())
	}
	return errors.Join(errs...)
}

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

const (
	chunk       = 1000 // operations between two looks at the clock
	sampleEvery = 16   // reads of which one is timed
	seekEntries = 10   // read after each seek
)

// readCached reads a settled store whose cache holds all of it.
func (c *child) readCached() error {
	if err := c.openToRead(false); err != nil {
		return err
	}
	if err := c.eachWay(func() error {
		return c.lookups("readrandom", "readmissing", "readmissing2", "readmissing-many")
	}); err != nil {
		return err
	}
	return c.scans("seekrandom", "readseq", "readreverse")
}

// readSmall reads it with a cache of 1/16 of the data.
func (c *child) readSmall() error {
	if err := c.openToRead(true); err != nil {
		return err
	}
	if err := c.eachWay(func() error {
		return c.lookups("readrandom-small", "readmissing-small")
	}); err != nil {
		return err
	}
	if err := c.scans("seekrandom-small", "readseq-small"); err != nil {
		return err
	}
	return c.seekCold()
}

// openToRead opens a store that is settled, and warms it up.
func (c *child) openToRead(small bool) error {
	o := stores.Options{Reading: true}
	if small {
		c.smallCache(&o)
	}
	if err := c.open(o); err != nil {
		return err
	}
	if err := c.noteLevels(); err != nil {
		return err
	}
	return c.warmUp()
}

// smallCache gives engines that keep filters and indexes in the block cache as
// much more of it as those take: 10 bits a key, and 32 bytes for each block.
func (c *child) smallCache(o *stores.Options) {
	o.Cache = c.SmallCache
	o.FilterCache = int64(c.N)*10/8 + int64(c.N)*c.entryBytes()/128
}

// settleBySeeks lets the store be read for some seconds by seeks that are not cached.
func (c *child) settleBySeeks() error {
	o := stores.Options{Compactions: true}
	c.smallCache(&o)
	return c.settleBy(o, 8*time.Second, func(read func(func() error) error) error {
		next, _ := c.presentKeys("settle by reads", 0)
		// An iterator sees the store as it was when it was opened. So each opens only a few places.
		return read(func() error {
			it, err := c.store.Iterator()
			if err != nil {
				return err
			}
			for range 100 {
				err = errors.Join(err, c.scan(it, next(), seekEntries+1))
			}
			return errors.Join(err, it.Close())
		})
	})
}

// settleByLookups does so by lookups of absent keys.
func (c *child) settleByLookups() error {
	return c.settleBy(stores.Options{Compactions: true}, time.Second, func(read func(func() error) error) error {
		r, err := c.store.Reader(stores.Held)
		if err != nil {
			return err
		}
		next, _ := c.absentKeys("settle by reads", 0)
		err = read(func() error { return c.check(r, next(), false) })
		return errors.Join(err, r.Close())
	})
}

// settleBy opens the store, calls work, and lets the store come to rest.
// work passes what reads once to read, which repeats it for the time given.
func (c *child) settleBy(o stores.Options, long time.Duration, work func(read func(func() error) error) error) error {
	if err := c.open(o); err != nil {
		return err
	}
	err := work(func(once func() error) error {
		for begin := time.Now(); time.Since(begin) < min(long, 4*c.duration()); {
			for range 100 {
				if err := once(); err != nil {
					return fmt.Errorf("settle by reads: %w", err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := c.settle(); err != nil {
		return err
	}
	return c.close()
}

// eachWay does the same for each way of looking keys up.
func (c *child) eachWay(do func() error) error {
	if err := do(); err != nil || c.kind.SeekName == "" {
		return err
	}
	c.way = stores.Seeking
	defer func() { c.way = stores.Held }()
	return do()
}

// warmUp looks up so many present keys that nearly every block is met five
// times, and then some absent ones, which no round asks for.
func (c *child) warmUp() error {
	entriesOfBlock := max(1, 4096/int(c.entryBytes()))
	lookups := min(c.N, 5*c.N/entriesOfBlock)
	r, err := c.store.Reader(stores.Held)
	if err != nil {
		return err
	}
	var k data.Key
	random := data.NewRandom(c.seed("warm-up", 0))
	for range lookups {
		if err := c.check(r, c.space.Present(&k, random.Below(uint64(c.N))), true); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	absent := c.absentRange()
	for i := range min(c.N/4, 100_000) {
		if err := c.check(r, c.space.Absent(&k, absent+uint64(i)), false); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	return r.Close()
}

// check looks a key up and sees that the answer is right.
func (c *child) check(r stores.Reader, key []byte, present bool) error {
	size, tag, err := r.Get(key)
	if err != nil {
		return fmt.Errorf("get %q: %w", key, err)
	}
	if present {
		if size == c.ValueBytes && tag == data.Tag(key) {
			return nil
		}
	} else if size == stores.Absent {
		return nil
	}
	if c.kind.Unverified {
		return nil
	}
	return fmt.Errorf("wrong answer for %q, present %v: a value of %d bytes (%d: absent) that starts with %x, not %x",
		key, present, size, stores.Absent, tag, data.Tag(key))
}

// lookups measures workloads of point reads.
func (c *child) lookups(names ...string) error {
	for _, name := range names {
		if !c.measures(name) {
			continue
		}
		next := c.presentKeys
		if len(name) >= 11 && name[:11] == "readmissing" {
			next = c.absentKeys
		}
		work := []func(*track) error{c.lookUp(name, stores.Held, next)}
		switch name {
		case "readmissing2":
			work = append(work, work[0])
		case "readmissing-many":
			work[0] = c.lookUpMany(name)
		}
		if err := c.measureRead(name, work...); err != nil {
			return err
		}
	}
	return nil
}

// measureRead measures a workload that only reads, with what the engine counts.
func (c *child) measureRead(name string, work ...func(*track) error) error {
	before := c.store.Counts()
	m, err := c.measure(name, c.duration(), work...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after := c.store.Counts()
	e := results.Engine{BlockReads: results.Unknown, FalsePositives: results.Unknown, PredictedFPR: after.PredictedFPR}
	if before.BlockReads != results.Unknown {
		e.BlockReads = float64(after.BlockReads-before.BlockReads) / float64(m.run.Ops)
	}
	if before.FalsePositives != results.Unknown {
		e.FalsePositives = float64(after.FalsePositives-before.FalsePositives) / float64(m.run.Ops)
	}
	m.run.Engine = &e
	c.keep(m, name)
	return nil
}

// A source makes the keys that one goroutine asks for.
type source func(name string, id int) (next func() []byte, present bool)

// presentKeys draws keys evenly from all.
func (c *child) presentKeys(name string, id int) (func() []byte, bool) {
	k, random, n := data.Apart[data.Key](), data.NewRandom(c.seed(name, id)), uint64(c.N)
	return func() []byte { return c.space.Present(k, random.Below(n)) }, true
}

// absentKeys are never the same, but for structured ones, of which there are as
// many as entries.
func (c *child) absentKeys(string, int) (func() []byte, bool) {
	k, i := data.Apart[data.Key](), data.Apart[uint64]()
	*i = c.absentRange()
	return func() []byte {
		*i++
		return c.space.Absent(k, *i)
	}, false
}

// absentRange begins a range of numbers that nobody else asks for, in no round.
func (c *child) absentRange() uint64 { return uint64(c.Round)<<50 + c.absent.Add(1)<<40 }

// lookUp asks for keys until the time is over.
func (c *child) lookUp(name string, way stores.Way, from source) func(*track) error {
	if c.way == stores.Seeking {
		way = stores.Seeking
	}
	return func(t *track) error {
		t.of = "a lookup"
		r, err := c.store.Reader(way)
		if err != nil {
			return err
		}
		next, present := from(name, t.id)
		for more := true; more; more = t.now() < t.limit {
			if err := r.Refresh(); err != nil {
				return err
			}
			for i := range chunk {
				key := next()
				if i%sampleEvery != 0 {
					if err := c.check(r, key, present); err != nil {
						return err
					}
					continue
				}
				begin := t.now()
				err := c.check(r, key, present)
				t.timed.Add(t.now() - begin)
				if err != nil {
					return err
				}
			}
			t.ops += chunk
		}
		return r.Close()
	}
}

// lookUpMany asks for absent keys, many in one call, until the time is over. An engine that has no such
// call is asked for one after the other.
func (c *child) lookUpMany(name string) func(*track) error {
	return func(t *track) error {
		t.of = "a lookup"
		way := stores.Held
		if c.way == stores.Seeking {
			way = stores.Seeking
		}
		r, err := c.store.Reader(way)
		if err != nil {
			return err
		}
		next, _ := c.absentKeys(name, t.id)
		keys := make([][]byte, chunk)
		for more := true; more; more = t.now() < t.limit {
			if err := r.Refresh(); err != nil {
				return err
			}
			for i := range keys {
				keys[i] = append(keys[i][:0], next()...)
			}
			begin := t.now()
			if err := c.checkAbsent(r, keys); err != nil {
				return err
			}
			t.timed.Add((t.now() - begin) / chunk)
			t.ops += chunk
		}
		return r.Close()
	}
}

// checkAbsent looks keys up and sees that none is there.
func (c *child) checkAbsent(r stores.Reader, keys [][]byte) error {
	many, has := r.(stores.ManyReader)
	if !has {
		for _, key := range keys {
			if err := c.check(r, key, false); err != nil {
				return err
			}
		}
		return nil
	}
	present, err := many.GetMany(keys)
	if err == nil && present > 0 {
		err = fmt.Errorf("wrong answer: %d of %d absent keys are there", present, len(keys))
	}
	return err
}

// scans measures workloads with iterators.
func (c *child) scans(names ...string) error {
	for _, name := range names {
		if !c.measures(name) {
			continue
		}
		work := c.readAll
		switch name {
		case "seekrandom", "seekrandom-small", "seekrandom-levels":
			work = c.seekRandom
		case "readreverse":
			work = c.readReverse
		}
		if err := c.measureRead(name, work); err != nil {
			return err
		}
	}
	return nil
}

// words are a key as two numbers that compare as it does.
func words(key []byte) (high, low uint64) {
	_ = key[keyBytes-1]
	return binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:])
}

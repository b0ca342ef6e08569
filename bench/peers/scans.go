package main

import (
	"bytes"
	"fmt"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// readAll reads all entries in order, again and again until the time is over.
func (c *child) readAll(t *track) error {
	return c.passes(t, stores.Iterator.First, stores.Iterator.Next, 1)
}

// readReverse does so backwards.
func (c *child) readReverse(t *track) error {
	return c.passes(t, stores.Iterator.Last, stores.Iterator.Prev, -1)
}

func (c *child) passes(t *track, begin, next func(stores.Iterator) bool, direction int) error {
	t.of = "1000 entries"
	for more := true; more; more = t.now() < t.limit {
		it, err := c.store.Iterator()
		if err != nil {
			return err
		}
		n, whole, err := c.pass(t, it, begin, next, direction)
		if err == nil {
			err = it.Close()
		}
		if err != nil {
			return err
		}
		t.ops += int64(n)
		if whole && n != c.N && !c.kind.Unverified {
			return fmt.Errorf("%d entries, want %d", n, c.N)
		}
	}
	return nil
}

// pass reads all entries, or as many as there is time for.
func (c *child) pass(t *track, it stores.Iterator, begin, next func(stores.Iterator) bool, direction int) (n int, whole bool, err error) {
	var lastHigh, lastLow uint64
	from := t.now()
	for ok := begin(it); ok; ok = next(it) {
		key := it.Key()
		value, err := it.Value()
		if err != nil {
			return n, false, err
		}
		high, low := words(key)
		if c.wrongEntry(key, value) || n > 0 && !ascends(lastHigh, lastLow, high, low, direction) && !c.kind.Unverified {
			return n, false, fmt.Errorf("entry %d: wrong key %q or value %q", n, key, value)
		}
		lastHigh, lastLow = high, low
		if n++; n%chunk == 0 {
			now := t.now()
			t.timed.Add(now - from)
			if from = now; now >= t.limit {
				return n, false, nil
			}
		}
	}
	return n, true, nil
}

func ascends(lastHigh, lastLow, high, low uint64, direction int) bool {
	if direction < 0 {
		lastHigh, lastLow, high, low = high, low, lastHigh, lastLow
	}
	return high > lastHigh || high == lastHigh && low > lastLow
}

func (c *child) wrongEntry(key, value []byte) bool {
	return (len(key) != keyBytes || len(value) != c.ValueBytes || data.TagOf(value) != data.Tag(key)) && !c.kind.Unverified
}

// seekRandom moves one iterator to keys drawn evenly, and on by ten entries.
func (c *child) seekRandom(t *track) error {
	t.of = "a seek and 10 entries"
	it, err := c.store.Iterator()
	if err != nil {
		return err
	}
	next, _ := c.presentKeys("seekrandom", 0)
	for more := true; more; more = t.now() < t.limit {
		for i := range chunk / 10 {
			sampled := i%sampleEvery == 0
			begin := t.start
			if sampled {
				begin = begin.Add(t.now())
			}
			if err := c.scan(it, next(), seekEntries+1); err != nil {
				return err
			}
			if sampled {
				t.timed.Add(t.now() - begin.Sub(t.start))
			}
		}
		t.ops += chunk / 10
	}
	return it.Close()
}

// scan seeks a present key and reads the entries from there up.
func (c *child) scan(it stores.Iterator, from []byte, entries int) error {
	var lastHigh, lastLow uint64
	n := 0
	for ok := it.SeekGE(from); ok; ok = it.Next() {
		key := it.Key()
		value, err := it.Value()
		if err != nil {
			return err
		}
		high, low := words(key)
		if n == 0 && !bytes.Equal(key, from) || n > 0 && !ascends(lastHigh, lastLow, high, low, 1) || c.wrongEntry(key, value) {
			if !c.kind.Unverified {
				return fmt.Errorf("scan from %q: entry %d: wrong key %q or value %q", from, n, key, value)
			}
		}
		lastHigh, lastLow = high, low
		if n++; n == entries {
			return nil
		}
	}
	// Keys are spread evenly: at the end of the store there are about as many
	// as their place tells.
	if follow := c.space.After(from); n == 0 || follow > 2*uint64(entries)+50 {
		return fmt.Errorf("scan from %q: %d entries, want %d: about %d follow", from, n, entries, follow)
	}
	return nil
}

package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

const (
	rangeDeletes = 10_000 // small ones, of disjoint ranges
	rangeEntries = 10     // about as many keys are in each
	rangeSamples = 1 << 20
)

// ranges deletes small ranges of a filled store, looks up what is left, and deletes all of it.
func (c *child) ranges() error {
	if err := c.settleByLookups(); err != nil {
		return err
	}
	if err := c.open(stores.Options{Compactions: true}); err != nil {
		return err
	}
	if err := c.warmUp(); err != nil {
		return err
	}
	lowers, left := c.sampleRanges()
	present := func(name string, id int) (func() []byte, bool) {
		k, random := data.Apart[data.Key](), data.NewRandom(c.seed("ranges", id))
		return func() []byte { return c.space.Present(k, uint64(left[random.Below(uint64(len(left)))])) }, true
	}
	if c.measures("get-before") {
		if err := c.measureRead("get-before", c.lookUp("get-before", stores.Held, present)); err != nil {
			return err
		}
	}
	if c.measures("deleterange-scan") || c.measures("get-ranges") {
		m, err := c.measure("deleterange-scan", c.budget(), c.deleteAndScan(lowers))
		if err != nil {
			return fmt.Errorf("deleterange-scan: %w", err)
		}
		c.keep(m, "deleterange-scan")
	}
	if c.measures("get-ranges") {
		if err := c.deleteRest(lowers); err != nil {
			return err
		}
		if _, err := c.settle(); err != nil {
			return err
		}
		if err := c.measureRead("get-ranges", c.lookUp("get-ranges", stores.Held, present)); err != nil {
			return err
		}
	}
	if !c.measures("deleteall") {
		return nil
	}
	m, err := c.measure("deleteall", c.budget(), c.deleteAll)
	if err != nil {
		return fmt.Errorf("deleteall: %w", err)
	}
	c.keep(m, "deleteall")
	return nil
}

// smallRange makes the bounds of the i-th of n/10 disjoint ranges.
func (c *child) smallRange(lower, upper *data.Key, i uint64) {
	c.space.Ordered(lower, i*rangeEntries)
	c.space.Ordered(upper, (i+1)*rangeEntries)
}

// sampleRanges draws the ranges to delete, and numbers of keys that lie in none of them.
func (c *child) sampleRanges() (ranges []uint64, left []uint32) {
	all := uint64(c.N) / rangeEntries
	random := data.NewRandom(c.seed("ranges", 0))
	chosen := map[uint64]bool{}
	for len(ranges) < min(rangeDeletes, int(all)/2) {
		if i := random.Below(all - 1); !chosen[i] {
			chosen[i] = true
			ranges = append(ranges, i)
		}
	}
	sorted := slices.Sorted(slices.Values(ranges))
	var k, lower, upper data.Key
	for range min(rangeSamples, 4*c.N) {
		number := random.Below(uint64(c.N))
		key := c.space.Present(&k, number)
		at, _ := slices.BinarySearchFunc(sorted, key, func(i uint64, key []byte) int {
			c.smallRange(&lower, &upper, i)
			if bytes.Compare(upper[:], key) <= 0 {
				return -1
			}
			return 1
		})
		if at < len(sorted) {
			if c.smallRange(&lower, &upper, sorted[at]); bytes.Compare(lower[:], key) <= 0 {
				continue
			}
		}
		left = append(left, uint32(number))
	}
	return ranges, left
}

// deleteAndScan deletes one small range after the other, and reads after each ten entries from its lower
// bound on, with a new iterator.
func (c *child) deleteAndScan(ranges []uint64) func(*track) error {
	return func(t *track) error {
		w, err := c.store.Writer()
		if err != nil {
			return err
		}
		var lower, upper data.Key
		t.ready("a range and 10 entries")
		for n, i := range ranges {
			c.smallRange(&lower, &upper, i)
			if err := w.(stores.RangeDeleter).DeleteRange(lower[:], upper[:]); err != nil {
				return err
			}
			it, err := c.store.Iterator()
			if err != nil {
				return err
			}
			if err := c.scanBehind(it, lower[:], upper[:]); err != nil {
				return err
			}
			if err := it.Close(); err != nil {
				return err
			}
			if !t.finished(1) {
				t.cut = n+1 < len(ranges)
				break
			}
		}
		return w.Close()
	}
}

// scanBehind reads the first ten entries from lower on. The keys below upper were deleted, so it fails if it meets one.
func (c *child) scanBehind(it stores.Iterator, lower, upper []byte) error {
	n := 0
	for ok := it.SeekGE(lower); ok && n < seekEntries; ok = it.Next() {
		value, err := it.Value()
		if err != nil {
			return err
		}
		if key := it.Key(); bytes.Compare(key, upper) < 0 && !c.kind.Unverified || c.wrongEntry(key, value) {
			return fmt.Errorf("wrong entry %q behind the range to %q, which was deleted", key, upper)
		}
		n++
	}
	return nil
}

// deleteRest deletes those ranges that a workload that was cut has left.
func (c *child) deleteRest(ranges []uint64) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	var lower, upper data.Key
	for _, i := range ranges {
		c.smallRange(&lower, &upper, i)
		if err := w.(stores.RangeDeleter).DeleteRange(lower[:], upper[:]); err != nil {
			return err
		}
	}
	return w.Close()
}

// deleteAll deletes all entries, and waits until the tables that had them are gone.
func (c *child) deleteAll(t *track) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	all, err := c.live()
	if err != nil {
		return err
	}
	t.ready("a store")
	if err := w.(stores.RangeDeleter).DeleteRange(make([]byte, 1), bytes.Repeat([]byte{0xff}, keyBytes+1)); err != nil {
		return err
	}
	for {
		if err := c.store.Flush(); err != nil {
			return err
		}
		bytes, err := c.live()
		if err != nil {
			return err
		}
		if bytes <= all/100 || t.now() > t.limit {
			t.cut = bytes > all/100
			break
		}
		time.Sleep(time.Millisecond)
	}
	t.finished(1)
	return w.Close()
}

// live returns the bytes of all tables.
func (c *child) live() (int64, error) {
	levels, err := c.store.Levels()
	return stores.Live(levels), err
}

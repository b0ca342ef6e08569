package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/stores"
)

const (
	reopenings   = 7    // at most, of which the median counts; fewer if they take longer than the budget
	firstLookups = 1000 // of present keys
)

// reopens times Open and the first lookups after it, of files that are in the page cache and of files that are not. Open does
// not wait for what a store reads behind it.
func (c *child) reopens() error {
	for _, name := range []string{"reopen", "reopen-cold"} {
		first := name + "-first"
		if !c.measures(name) && !c.measures(first) {
			continue
		}
		var opened, read []*measurement
		begin := time.Now()
		for i := 0; i < reopenings && (i == 0 || time.Since(begin) < c.budget()); i++ {
			if name == "reopen-cold" {
				if err := dropPages(c.Dir); err != nil {
					return err
				}
			}
			o, l, err := c.reopenOnce(name, first, i)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			opened, read = append(opened, o), append(read, l)
		}
		c.keep(median(opened), name)
		c.keep(median(read), first)
	}
	return nil
}

func (c *child) reopenOnce(name, first string, i int) (opened, read *measurement, err error) {
	opened, err = c.measure(name, 0, func(t *track) error {
		t.ready("Open")
		err := c.open(stores.Options{Compactions: true, Hasty: true})
		t.finished(1)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	read, err = c.measure(first, 0, func(t *track) error {
		r, err := c.store.Reader(stores.Held)
		if err != nil {
			return err
		}
		if err := r.Refresh(); err != nil {
			return err
		}
		next, _ := c.presentKeys(first, i)
		t.ready("a lookup")
		for range firstLookups {
			if err := c.check(r, next(), true); err != nil {
				return err
			}
			t.counted()
		}
		return r.Close()
	})
	if err != nil {
		return nil, nil, err
	}
	return opened, read, c.close()
}

// median is the measurement in the middle.
func median(all []*measurement) *measurement {
	slices.SortFunc(all, func(a, b *measurement) int { return cmp.Compare(a.run.NanosPerOp, b.run.NanosPerOp) })
	return all[len(all)/2]
}

package main

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

const (
	levelRuns  = 8
	runDivisor = 500 // makes the entries of a run from those of the store
	minEntries = 2 * runDivisor
)

// readLevels reads a store that was opened again with eight runs in level 0
// above its settled levels.
func (c *child) readLevels() error {
	if err := c.addRuns(); err != nil {
		return err
	}
	if err := c.openToRead(false); err != nil {
		return err
	}
	if runs := stores.Level0Runs(c.levels); runs != levelRuns && !c.kind.Tree {
		return fmt.Errorf("%d runs in level 0, want %d: %+v", runs, levelRuns, c.levels)
	}
	if err := c.eachWay(func() error { return c.lookups("readmissing-levels", "readrandom-levels") }); err != nil {
		return err
	}
	return c.scans("seekrandom-levels")
}

// addRuns writes entries again until level 0 has its runs.
func (c *child) addRuns() (err error) {
	if err := c.open(stores.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.noteLevels(); err != nil {
		return err
	}
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	var k data.Key
	values := data.NewValues(c.ValueBytes, c.seed("levels", 0))
	each := uint64(c.N / runDivisor)
	for run := stores.Level0Runs(c.levels); run < levelRuns; run++ {
		for i := range each {
			key := c.space.Present(&k, uint64(run)*each+i)
			if err := w.Put(key, values.Next(key)); err != nil {
				return err
			}
		}
		if err := c.store.Flush(); err != nil {
			return err
		}
	}
	return w.Close()
}

package main

import (
	"fmt"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// update overwrites entries of a filled store, deletes half of them and looks
// for those.
func (c *child) update() error {
	if err := c.open(stores.Options{Compactions: true}); err != nil {
		return err
	}
	if c.measures("overwrite") || c.measures("readseq-overwritten") {
		m, err := c.measure("overwrite", c.budget()*time.Duration(c.Overwrites), c.overwrite)
		if err != nil {
			return fmt.Errorf("overwrite: %w", err)
		}
		if err := c.finishWrites(m, "overwrite", c.entryBytes()); err != nil {
			return err
		}
		if err := c.scans("readseq-overwritten"); err != nil {
			return err
		}
	}
	if !c.measures("deleterandom") && !c.measures("readdeleted") {
		return nil
	}
	m, err := c.measure("deleterandom", c.budget(), c.deleteRandom)
	if err != nil {
		return fmt.Errorf("deleterandom: %w", err)
	}
	if err := c.finishWrites(m, "deleterandom", keyBytes); err != nil || !c.measures("readdeleted") {
		return err
	}
	deleted := uint64(m.run.Ops)
	return c.measureRead("readdeleted", c.lookUp("readdeleted", stores.Held, func(name string, id int) (func() []byte, bool) {
		k, random := data.Apart[data.Key](), data.NewRandom(c.seed(name, id))
		return func() []byte { return c.space.Present(k, c.space.Scattered(random.Below(deleted))) }, false
	}))
}

// finishWrites settles what a workload wrote and keeps its figures.
func (c *child) finishWrites(m *measurement, name string, opBytes int64) error {
	m.written(m.run.Ops * opBytes)
	took, err := c.settle()
	if err != nil {
		return err
	}
	if err := m.settled(took, c.Dir); err != nil {
		return err
	}
	c.keep(m, name)
	return nil
}

// overwrite writes as many entries as there are, or some times as many, to keys drawn evenly.
func (c *child) overwrite(t *track) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	next, _ := c.presentKeys("overwrite", t.id)
	values := data.NewValues(c.ValueBytes, c.seed("overwrite", t.id))
	t.ready("an entry")
	n := c.N * c.Overwrites
	for i := range n {
		key := next()
		if err := w.Put(key, values.Next(key)); err != nil {
			return err
		}
		if !t.finished(1) {
			t.cut = i+1 < n
			break
		}
	}
	return w.Close()
}

// deleteRandom deletes half of the entries, each once.
func (c *child) deleteRandom(t *track) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	var k data.Key
	half := uint64(c.N / 2)
	t.ready("an entry")
	for i := range half {
		if err := w.Delete(c.space.Present(&k, c.space.Scattered(i))); err != nil {
			return err
		}
		if !t.finished(1) {
			t.cut = i+1 < half
			break
		}
	}
	return w.Close()
}

// readWhileWriting has one goroutine look keys up while another overwrites
// entries as fast as it can. Each makes a result.
func (c *child) readWhileWriting() error {
	const name = "readwhilewriting"
	if err := c.settleByLookups(); err != nil {
		return err
	}
	if err := c.open(stores.Options{Compactions: true}); err != nil {
		return err
	}
	if err := c.warmUp(); err != nil {
		return err
	}
	m, err := c.measure(name, 2*c.duration(), c.lookUp(name, stores.Fresh, c.presentKeys), c.writeOn)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, of := range []string{name, name + writerSuffix} {
		one := measurement{tracks: m.tracks[i : i+1], took: m.took, before: m.before, run: m.run}
		one.alone(of)
		if i == 1 {
			one.written(one.run.Ops * c.entryBytes())
		}
		c.keep(&one, name)
	}
	return nil
}

// writeOn overwrites entries until the time is over.
func (c *child) writeOn(t *track) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	next, _ := c.presentKeys("writeon", t.id)
	values := data.NewValues(c.ValueBytes, c.seed("writeon", t.id))
	t.ready("an entry")
	for more := true; more; more = t.finished(1) {
		key := next()
		if err := w.Put(key, values.Next(key)); err != nil {
			return err
		}
	}
	return w.Close()
}

package main

import (
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
	"github.com/shaledb/shale/bench/peers/internal/usage"
)

const (
	batchEntries = 100
	loadEntries  = 30_000 // of a batch where loading is not measured, at most: bbolt takes two thirds of the time that it takes with 1000
	loadBytes    = 4 << 20
	syncWriters  = 16
)

// fillOne fills an empty store, settles it, closes it and opens it again.
func (c *child) fillOne() error {
	o := stores.Options{Compactions: true, Sync: c.Group == "fillsync" || c.Group == "fillsync16"}
	has := 0
	if c.measures(c.Group) {
		m, err := c.measureFilled(o)
		if err != nil {
			return err
		}
		c.keep(m, c.Group)
		has = int(m.run.Ops)
	}
	if c.Group == fillGroup && c.Round == 0 {
		return c.complete(o, has)
	}
	return nil
}

// measureFilled measures a fill, what is left to do when it ends, and how the store opens again. The store is closed then.
func (c *child) measureFilled(o stores.Options) (*measurement, error) {
	if err := c.open(o); err != nil {
		return nil, err
	}
	m, err := c.measureFill(c.Group)
	if err != nil {
		return nil, err
	}
	userBytes := m.run.Ops * c.entryBytes()
	m.written(userBytes)
	took, err := c.settle()
	if err != nil {
		return nil, err
	}
	if err := m.settled(took, c.Dir); err != nil {
		return nil, err
	}
	m.run.Fill, err = c.reopen(o, stores.Live(c.levels), userBytes)
	return m, err
}

func (c *child) measureFill(name string) (*measurement, error) {
	switch name {
	case "fillseq":
		return c.measure(name, c.budget(), c.fill(c.space.Ordered, stores.Writer.Put))
	case "fillttl":
		return c.measure(name, c.budget(), c.fill(c.space.Present, func(w stores.Writer, key, value []byte) error {
			return w.(stores.Expirer).PutTTL(key, value, time.Hour)
		}))
	case "fillbatch":
		return c.measure(name, c.budget(), c.fillBatches)
	case "fillsync":
		return c.measure(name, c.duration(), c.fillPart(1))
	case "fillsync16":
		var work []func(*track) error
		for range syncWriters {
			work = append(work, c.fillPart(syncWriters))
		}
		return c.measure(name, c.duration(), work...)
	default:
		return c.measure(name, c.budget(), c.fill(c.space.Present, stores.Writer.Put))
	}
}

// fill writes all entries one by one.
func (c *child) fill(key func(*data.Key, uint64) []byte, put func(w stores.Writer, key, value []byte) error) func(*track) error {
	return func(t *track) error {
		w, err := c.store.Writer()
		if err != nil {
			return err
		}
		var k data.Key
		values := data.NewValues(c.ValueBytes, c.seed("values", t.id))
		t.ready("an entry")
		for i := range uint64(c.N) {
			key := key(&k, i)
			if err := put(w, key, values.Next(key)); err != nil {
				return err
			}
			if !t.finished(1) {
				t.cut = i+1 < uint64(c.N)
				break
			}
		}
		return w.Close()
	}
}

// fillBatches writes all entries by 100.
func (c *child) fillBatches(t *track) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	entries := c.entries(0)
	t.ready("a batch of 100")
	for done := 0; done < c.N; {
		n := min(batchEntries, c.N-done)
		if err := w.Batch(n, entries); err != nil {
			return err
		}
		done += n
		if !t.finished(int64(n)) {
			t.cut = done < c.N
			break
		}
	}
	return w.Close()
}

// entries yields the entries of a random fill from a number on.
func (c *child) entries(from uint64) func() (key, value []byte) {
	var k data.Key
	values := data.NewValues(c.ValueBytes, c.seed("values", 0))
	i := from
	return func() ([]byte, []byte) {
		key := c.space.Present(&k, i)
		i++
		return key, values.Next(key)
	}
}

// fillPart writes entries until the time is over, as one of several writers.
func (c *child) fillPart(writers int) func(*track) error {
	return func(t *track) error {
		w, err := c.store.Writer()
		if err != nil {
			return err
		}
		k := data.Apart[data.Key]()
		values := data.NewValues(c.ValueBytes, c.seed("values", t.id))
		t.ready("an entry")
		for i := uint64(t.id); ; i += uint64(writers) {
			key := c.space.Present(k, i)
			if err := w.Put(key, values.Next(key)); err != nil {
				return err
			}
			if !t.finished(1) {
				return w.Close()
			}
		}
	}
}

// load writes the entries of a random fill from a number on, unmeasured.
func (c *child) load(from int) error {
	w, err := c.store.Writer()
	if err != nil {
		return err
	}
	entries := c.entries(uint64(from))
	each := max(1, min(loadEntries, loadBytes/int(c.entryBytes())))
	for done := from; done < c.N; done += each {
		if err := w.Batch(min(each, c.N-done), entries); err != nil {
			return err
		}
	}
	return w.Close()
}

// complete loads what a fill that was cut has left, for those who read, and reads: some engines compact what is often
// read.
func (c *child) complete(o stores.Options, from int) error {
	if err := c.open(o); err != nil {
		return err
	}
	if err := c.load(from); err != nil {
		return err
	}
	if _, err := c.settle(); err != nil {
		return err
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := c.settleByLookups(); err != nil {
		return err
	}
	return c.settleBySeeks()
}

// reopen closes the store, looks at its directory and times its opening.
func (c *child) reopen(o stores.Options, live, userBytes int64) (*results.Fill, error) {
	begin := time.Now()
	if err := c.close(); err != nil {
		return nil, err
	}
	f := &results.Fill{LiveBytes: live, CloseMillis: time.Since(begin).Seconds() * 1e3}
	var err error
	if f.DirBytes, err = usage.DirBytes(c.Dir); err != nil {
		return nil, err
	}
	if f.LiveBytes == 0 {
		f.LiveBytes = f.DirBytes // the engine does not tell
	}
	f.SpaceAmp = float64(f.DirBytes) / float64(userBytes)
	begin = time.Now()
	if err := c.open(o); err != nil {
		return nil, err
	}
	f.ReopenMillis = time.Since(begin).Seconds() * 1e3
	return f, c.close()
}

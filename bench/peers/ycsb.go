package main

import (
	"fmt"
	"slices"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// A mix has the shares of YCSB's operations in percent; what is left are
// reads.
type mix struct {
	update, insert, scan, modify uint64
	latest                       bool
}

var mixes = map[string]mix{
	"ycsb-a": {update: 50},
	"ycsb-b": {update: 5},
	"ycsb-c": {},
	"ycsb-d": {insert: 5, latest: true},
	"ycsb-e": {insert: 5, scan: 95},
	"ycsb-f": {modify: 50},
}

const (
	ycsbClients  = 2
	longestScan  = 100
	ycsbDuration = 2 // times that of reads
)

// ycsb runs YCSB's workloads, in its order, on one store. Each begins on
// settled levels, of a store that has been read before.
func (c *child) ycsb() error {
	settle := c.settleByLookups
	if slices.Contains(c.Workloads, "ycsb-e") {
		settle = c.settleBySeeks
	}
	if err := settle(); err != nil {
		return err
	}
	if err := c.open(stores.Options{Compactions: true}); err != nil {
		return err
	}
	if err := c.warmUp(); err != nil {
		return err
	}
	inserted := make([]uint64, ycsbClients)
	for _, name := range c.Workloads {
		if _, err := c.settle(); err != nil {
			return err
		}
		zipf := data.NewZipf(uint64(c.N))
		var work []func(*track) error
		for id := range ycsbClients {
			work = append(work, func(t *track) error {
				cl := data.Apart[client]()
				*cl = client{child: c, id: id, mix: mixes[name], zipf: zipf, inserted: inserted[id]}
				err := cl.run(t, name)
				inserted[id] = cl.inserted
				return err
			})
		}
		m, err := c.measure(name, ycsbDuration*c.duration(), work...)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.keep(m, name)
	}
	return nil
}

// A client is one of YCSB's.
type client struct {
	*child
	id       int
	mix      mix
	zipf     *data.Zipf
	random   *data.Random
	values   *data.Values
	w        stores.Writer
	r        stores.Reader
	inserted uint64 // keys of its own
	k        data.Key
}

func (cl *client) run(t *track, name string) (err error) {
	cl.random, cl.values = data.NewRandom(cl.seed(name, cl.id)), data.NewValues(cl.ValueBytes, cl.seed(name, cl.id))
	if cl.w, err = cl.store.Writer(); err != nil {
		return err
	}
	if cl.r, err = cl.store.Reader(stores.Fresh); err != nil {
		return err
	}
	t.ready("an operation")
	for more := true; more; more = t.counted() {
		if err := cl.operation(); err != nil {
			return err
		}
	}
	if err := cl.r.Close(); err != nil {
		return err
	}
	return cl.w.Close()
}

func (cl *client) operation() error {
	die := cl.random.Below(100)
	switch m := cl.mix; {
	case die < m.insert:
		return cl.insert()
	case die < m.insert+m.update:
		key := cl.choose()
		return cl.w.Put(key, cl.values.Next(key))
	case die < m.insert+m.update+m.scan:
		return cl.scanSome()
	case die < m.insert+m.update+m.scan+m.modify:
		key := cl.choose()
		if err := cl.check(cl.r, key, true); err != nil {
			return err
		}
		return cl.w.Put(key, cl.values.Next(key))
	default:
		return cl.check(cl.r, cl.choose(), true)
	}
}

// choose draws a key: by rank, scattered; or counted back from the latest that
// this client has written, so that it is there.
func (cl *client) choose() []byte {
	draw := cl.zipf.Draw(cl.random)
	switch {
	case !cl.mix.latest:
		return cl.space.Present(&cl.k, data.Scramble(draw, cl.space.N()))
	case draw < cl.inserted:
		return cl.space.Present(&cl.k, cl.own(cl.inserted-1-draw))
	default:
		return cl.space.Present(&cl.k, cl.space.N()-1-(draw-cl.inserted))
	}
}

// own is the number of the i-th key that this client inserts.
func (cl *client) own(i uint64) uint64 { return cl.space.N() + ycsbClients*i + uint64(cl.id) }

func (cl *client) insert() error {
	key := cl.space.Present(&cl.k, cl.own(cl.inserted))
	if err := cl.w.Put(key, cl.values.Next(key)); err != nil {
		return err
	}
	cl.inserted++
	return nil
}

// scanSome reads 1 to 100 entries by an iterator of its own.
func (cl *client) scanSome() error {
	it, err := cl.store.Iterator()
	if err != nil {
		return err
	}
	if err := cl.scan(it, cl.choose(), 1+int(cl.random.Below(longestScan))); err != nil {
		return err
	}
	return it.Close()
}

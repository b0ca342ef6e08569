package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/data"
	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
)

// A child is a process that runs one group of workloads on one store.
type child struct {
	spec
	kind   stores.Kind
	store  stores.Store // nil while it is closed
	space  data.Space
	way    stores.Way
	levels []results.Level // of the open store, when it was last settled
	runs   []results.Run
	absent atomic.Uint64 // ranges of absent keys that were used
}

// runChild does what the spec in a file says.
func runChild(path string) error {
	s, err := readSpec(path)
	if err != nil {
		return err
	}
	runs, err := s.run()
	if err != nil {
		return fmt.Errorf("%s: %s, round %d: %w", s.Store, s.Group, s.Round, err)
	}
	return figures.WriteJSON(s.Out, runs)
}

func (s *spec) run() (runs []results.Run, err error) {
	kind, err := stores.Find(s.Store)
	if err != nil {
		return nil, err
	}
	c := &child{spec: *s, kind: kind, space: data.NewSpace(s.Keys, s.N)}
	defer func() { err = errors.Join(err, c.close()) }()
	g := findGroup(s.Group)
	if g == nil {
		return nil, fmt.Errorf("no group %q", s.Group)
	}
	err = g.run(c)
	return c.runs, err
}

// storeName is the name under which results are kept: that of the store, and of
// the way it is read.
func (c *child) storeName() string {
	if c.way == stores.Seeking {
		return c.kind.SeekName
	}
	return c.kind.Name
}

// open opens the store for one kind of work.
func (c *child) open(o stores.Options) error {
	o.Memtable, o.Quiet = c.Memtable, seconds(c.Quiet)
	if o.Cache == 0 {
		o.Cache = c.Cache
	}
	store := c.kind.New()
	if err := store.Open(c.Dir, o); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	c.store = store
	return nil
}

func (c *child) close() error {
	if c.store == nil {
		return nil
	}
	store := c.store
	c.store = nil
	if err := store.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func (c *child) settle() (took time.Duration, err error) {
	begin := time.Now()
	if err := c.store.Settle(); err != nil {
		return 0, fmt.Errorf("settle: %w", err)
	}
	took = time.Since(begin)
	return took, c.noteLevels()
}

func (c *child) noteLevels() (err error) {
	c.levels, err = c.store.Levels()
	return err
}

// keep adds a result, if it was asked for.
func (c *child) keep(m *measurement, workload string) {
	if c.measures(workload) {
		m.run.Levels = c.levels
		c.runs = append(c.runs, m.run)
	}
}

// seed differs from goroutine to goroutine and from round to round, and is the
// same for all stores.
func (c *child) seed(workload string, id int) uint64 {
	x := uint64(c.Round)<<32 | uint64(id)
	for _, b := range []byte(workload) {
		x = x*1_000_003 + uint64(b)
	}
	return rand.NewPCG(x, 7).Uint64()
}

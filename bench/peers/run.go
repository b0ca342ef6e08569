package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// A bench is a run: its stores, and what it has found.
type bench struct {
	config
	keys   keys.Space
	dir    string
	stores []store
	report *report
	next   uint64 // number of the first absent key that nobody has asked for

	messages io.Writer // progress
	begin    time.Time
}

// run does all that c asks for and prints the report to out.
func run(c config, out, messages io.Writer) (err error) {
	dir, err := os.MkdirTemp(c.dir, "shale-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{
		config: c, keys: keys.NewSpace(c.keys, c.n), dir: dir, report: newReport(c),
		messages: messages, begin: time.Now(),
	}
	for _, s := range newStores() {
		if len(c.only) == 0 || slices.Contains(c.only, s.name()) {
			b.stores = append(b.stores, s)
			for _, w := range s.ways() {
				b.report.engines = append(b.report.engines, w.name)
			}
		}
	}
	for i := range c.fills {
		if err := b.inTurn(i, b.fill); err != nil {
			return err
		}
	}
	for _, p := range phases {
		if p = p.asked(&c); len(p.workloads) == 0 {
			continue
		}
		if err := b.phase(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	b.report.finish()
	b.report.print(out)
	if c.json == "" {
		return nil
	}
	return figures.WriteJSON(c.json, b.report)
}

func (b *bench) path(s store) string { return filepath.Join(b.dir, s.name()) }

// inTurn does something with each store: A B, then B A.
func (b *bench) inTurn(round int, do func(store) error) error {
	stores := slices.Clone(b.stores)
	if round%2 == 1 {
		slices.Reverse(stores)
	}
	for _, s := range stores {
		if err := do(s); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	return nil
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.messages, "%6.1fs  %s\n", time.Since(b.begin).Seconds(), fmt.Sprintf(format, args...))
}

// fill writes all entries into a new store, lets it settle and closes it.
func (b *bench) fill(s store) (err error) {
	b.progress("fill %s", s.name())
	if err := os.RemoveAll(b.path(s)); err != nil {
		return err
	}
	if err := s.open(b.path(s), mode{memtable: b.memtable, cache: b.cache, compactions: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	v := newValues()
	buf := make([]byte, 0, keySize)
	begin := time.Now()
	for i := range uint64(b.n) {
		if err := s.put(b.keys.Present(buf, i), v.next()); err != nil {
			return err
		}
	}
	written := time.Since(begin)
	if err := s.settle(); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	settled := time.Since(begin)
	if err := b.noteShape(s, phases[0]); err != nil {
		return err
	}
	if b.asks("fill") {
		engine := s.ways()[0].name
		b.report.addTime("fillrandom, unsynced", engine, perEntry(written, b.n))
		b.report.addTime("fillrandom and settle", engine, perEntry(settled, b.n))
	}
	return nil
}

func perEntry(took time.Duration, n int) float64 { return float64(took) / float64(n) }

// phase measures the workloads of p on all stores, all of them open.
func (b *bench) phase(p phase) (err error) {
	if p.runs > 0 {
		if err := b.inTurn(0, func(s store) error { return b.addRuns(s, p.runs) }); err != nil {
			return err
		}
	}
	var all []*contestant
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
	}()
	err = b.inTurn(0, func(s store) error {
		if err := s.open(b.path(s), p.mode(&b.config)); err != nil {
			return err
		}
		for i, w := range s.ways() {
			all = append(all, &contestant{store: s, way: w, closes: i == 0})
		}
		return b.noteShape(s, p)
	})
	if err != nil {
		return err
	}
	slices.Reverse(all) // so that a store is closed after all its readers
	if err := b.warmUp(all, p); err != nil {
		return err
	}
	for round := range b.rounds {
		for _, w := range p.workloads {
			b.progress("%s, round %d", w.title, round+1)
			slab := w.keysFor(&b.config, b.keys, round, &b.next)
			for i := range all {
				c := all[i]
				if round%2 == 0 {
					c = all[len(all)-1-i] // A B, then B A
				}
				got, err := c.measure(slab, w.readers)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", c.way.name, w.title, err)
				}
				b.report.add(w, c.way.name, got)
			}
		}
	}
	return nil
}

// noteShape keeps the levels of an open store for the report, and sees that
// they are those that the phase is about.
func (b *bench) noteShape(s store, p phase) error {
	levels, err := s.levels()
	if err != nil {
		return err
	}
	b.report.noteShape(p.name, s.name(), levels)
	if got := level0Runs(levels); p.runs > 0 && got != p.runs {
		return fmt.Errorf("%d runs in level 0, want %d: %+v", got, p.runs, levels)
	}
	return nil
}

// addRuns writes entries anew until level 0 has the number of runs.
func (b *bench) addRuns(s store, runs int) (err error) {
	if err := s.open(b.path(s), mode{memtable: b.memtable, cache: b.cache}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	levels, err := s.levels()
	if err != nil {
		return err
	}
	v := newValues()
	buf := make([]byte, 0, keySize)
	each := uint64(b.n / runEntriesDivisor)
	for run := level0Runs(levels); run < runs; run++ {
		for i := range each {
			if err := s.put(b.keys.Present(buf, uint64(run)*each+i), v.next()); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// warmUp looks up so many present keys that nearly every block is met, and then
// some absent ones, which no round will ask for.
func (b *bench) warmUp(all []*contestant, p phase) error {
	absent := b.keys.AbsentSlab(b.next, b.reads/4)
	b.next += uint64(absent.Len())
	for _, c := range all {
		b.progress("warm up %s, %s", c.way.name, p.name)
		const chunk = 1 << 16
		for done := 0; done < b.n/4; done += chunk {
			present := b.keys.PresentSlab(uint64(1_000_000+done), b.n, min(chunk, b.n/4-done))
			if _, err := c.ask(present, 1); err != nil {
				return fmt.Errorf("%s: warm-up: %w", c.way.name, err)
			}
		}
		if _, err := c.ask(absent, 1); err != nil {
			return fmt.Errorf("%s: warm-up: %w", c.way.name, err)
		}
	}
	return nil
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/bench/peers/internal/stores"
	"github.com/shaledb/shale/bench/peers/internal/usage"
)

// A bench is a run of all groups, each in a process of its own.
type bench struct {
	*config
	dir      string // of this run, removed at its end
	self     string // this program
	messages io.Writer
	begin    time.Time
	file     results.File
	own      map[string]float64 // the benchmark's own cost of each workload
}

func run(c *config, out, messages io.Writer) (err error) {
	dir, err := os.MkdirTemp(c.dir, "peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{config: c, dir: dir, self: self, messages: messages, begin: time.Now(), own: map[string]float64{}}
	b.file = results.File{
		Machine: figures.ThisMachine(), Versions: versions(c.only),
		Settings: results.Settings{
			Entries: c.n, Keys: c.keys, KeyBytes: keyBytes, ValueBytes: c.value, Memtable: c.memtable, Cache: c.cache, SmallCache: c.smallCache(),
			Rounds: c.rounds, Seconds: c.seconds, BudgetSeconds: c.budget, Stores: c.only,
		},
	}
	for round := range c.rounds {
		if err := b.round(round); err != nil {
			return err
		}
	}
	b.order()
	printTable(out, &b.file)
	if c.json == "" {
		return nil
	}
	return b.file.Write(c.json)
}

// round runs every group on one store after the other, A B C, in the next round
// C B A.
func (b *bench) round(round int) error {
	turn := slices.Clone(b.only)
	if round%2 == 1 {
		slices.Reverse(turn)
	}
	for i := range groups {
		g := &groups[i]
		asked := g.asked(b.workloads)
		if len(asked) == 0 && (g.name != fillGroup || round > 0 || !b.readsFilled()) {
			continue
		}
		if err := b.measureOwn(g, asked); err != nil {
			return err
		}
		for _, store := range turn {
			kind, err := stores.Find(store)
			if err != nil {
				return err
			}
			if !kind.Can.Has(g.needs) || kind.Bound && round > 0 {
				continue
			}
			if err := b.group(g, store, round, asked); err != nil {
				return err
			}
		}
	}
	return nil
}

// readsFilled reports whether a group needs the store of fillGroup.
func (b *bench) readsFilled() bool {
	return slices.ContainsFunc(groups, func(g group) bool { return g.from != empty && len(g.asked(b.workloads)) > 0 })
}

func (b *bench) filledDir(store string) string { return filepath.Join(b.dir, store) }

// group runs one group on one store.
func (b *bench) group(g *group, store string, round int, asked []string) (err error) {
	fmt.Fprintf(b.messages, "%7.1fs  round %d/%d  %-17s %s\n", time.Since(b.begin).Seconds(), round+1, b.rounds, g.name, store)
	dir := b.filledDir(store)
	if g.from != filled && (g.name != fillGroup || round > 0) {
		dir = filepath.Join(b.dir, store+"-scratch")
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	switch g.from {
	case scratch:
		if err := os.CopyFS(dir, os.DirFS(b.filledDir(store))); err != nil {
			return err
		}
	case filled:
	case empty:
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	usage.SyncAll()
	s := b.spec(g, store, asked)
	s.Round, s.Dir = round, dir
	runs, err := b.process(s)
	b.file.Runs = append(b.file.Runs, runs...)
	return err
}

func (b *bench) spec(g *group, store string, workloads []string) *spec {
	s := &spec{
		Store: store, Group: g.name, Workloads: workloads, Out: filepath.Join(b.dir, "results.json"),
		N: b.n, Keys: b.keys, ValueBytes: b.value, Memtable: b.memtable, Cache: b.cache, SmallCache: b.smallCache(),
		Seconds: b.seconds, Budget: b.budget, Quiet: b.quiet(), Overwrites: b.overwrites,
	}
	if g.value > 0 {
		s.ValueBytes, s.N = g.value, min(b.n, largeEntries)
	}
	return s
}

// ownSeconds is how long the benchmark measures itself in each workload.
const ownSeconds = 0.2

// measureOwn runs a group on a store that does nothing, once.
func (b *bench) measureOwn(g *group, workloads []string) error {
	if len(workloads) == 0 || b.own[workloads[0]] > 0 {
		return nil
	}
	s := b.spec(g, stores.Null, workloads)
	s.Seconds, s.Budget, s.Dir = min(b.seconds, ownSeconds), min(b.budget, ownSeconds), b.dir
	runs, err := b.process(s)
	for i := range runs {
		b.own[runs[i].Workload] = runs[i].NanosPerOp
	}
	return err
}

// process runs this program again to do what the spec says.
func (b *bench) process(s *spec) ([]results.Run, error) {
	path := filepath.Join(b.dir, "spec.json")
	if err := figures.WriteJSON(path, s); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.self)
	cmd.Env = append(os.Environ(), specVariable+"="+path)
	cmd.Stdout, cmd.Stderr = b.messages, b.messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the process for %s, %s ended with %w: see above", s.Store, s.Group, err)
	}
	data, err := os.ReadFile(s.Out)
	if err != nil {
		return nil, err
	}
	var runs []results.Run
	return runs, json.Unmarshal(data, &runs)
}

// order sorts the runs as groups and stores are listed, so that the report
// does not depend on turns, and adds the benchmark's own cost to each.
func (b *bench) order() {
	place := func(r *results.Run) (int, int, int) {
		g := slices.IndexFunc(groups, func(g group) bool { return g.name == r.Group })
		w := slices.Index(groups[g].workloads, r.Workload)
		s := slices.IndexFunc(b.only, func(name string) bool {
			k, err := stores.Find(name)
			return err == nil && (k.Name == r.Store || k.SeekName == r.Store)
		})
		return g, w, s
	}
	for i := range b.file.Runs {
		r := &b.file.Runs[i]
		r.OwnNanosPerOp = b.own[r.Workload]
	}
	slices.SortStableFunc(b.file.Runs, func(x, y results.Run) int {
		gx, wx, sx := place(&x)
		gy, wy, sy := place(&y)
		if gx != gy {
			return gx - gy
		}
		if wx != wy && wx >= 0 && wy >= 0 {
			return wx - wy
		}
		return sx - sy
	})
}

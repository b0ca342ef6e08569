package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/vfs"
)

// An experiment measures the cells of one figure.
type experiment struct {
	name   string
	what   string
	weight int // about how many seconds it takes
	run    func(context.Context, *runner) error
}

func experiments() []experiment {
	return []experiment{
		{"F1", "what filters save, by number of levels", 45, measureLevels},
		{"F2", "false positives, by bits a key", 60, measureBits},
		{"F3", "how long one miss takes", 10, measureLatency},
		{"F4", "lookups a second, by block cache and hit ratio", 70, measureThroughput},
		{"F5", "block reads, by number of runs", 15, measureRuns},
		{"F6", "what filters cost", 70, measurePrice},
		{"F7", "what filters save, by size of values", 30, measureValues},
		{controls, "controls", 10, measureControls},
	}
}

// controls is the name of the cells that are in no figure.
const controls = "C"

// An effort is how much is measured.
type effort struct {
	keys        int // loaded at most; 0: all
	lookups     int // of a pass
	coldLookups int // of a cold pass
	levels      int // of the deepest tree
	fillKeys    int // of stores that are made many times
	limit       time.Duration
	points      int // of an axis at most; 0: all
}

func (c config) effort() effort {
	if c.test != nil {
		return *c.test
	}
	if c.short {
		return effort{keys: 6000, lookups: 1500, coldLookups: 40, levels: 3, fillKeys: 3000, limit: 100 * time.Millisecond}
	}
	return effort{lookups: 100_000, coldLookups: 1500, levels: 5, fillKeys: 300_000, limit: 2 * time.Second}
}

// A runner has what experiments share.
type runner struct {
	effort
	c       config
	data    *benchmark.Dataset
	present [][]byte // shuffled, as absent is
	absent  [][]byte
	dir     string
	trees   map[int]*store // with 10 bits, by levels
	res     *results
	noCold  bool
	current experiment
	bar     *benchmark.Progress
	before  int // seconds of the experiments that are done
}

// makeReport measures what is asked for and draws everything.
func (c config) makeReport(ctx context.Context, out io.Writer) error {
	chosen, err := c.chosen()
	if err != nil {
		return err
	}
	var res *results
	if c.only != "" || c.redraw {
		if res, err = readResults(c.resultsFile()); err != nil && (c.redraw || !errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("the earlier results: %w", err)
		}
	}
	if c.redraw {
		if err := c.makeFolders(); err != nil {
			return err
		}
		return res.draw(ctx, c.dir, out)
	}
	data, err := benchmark.ReadDataset(c.keys, c.absent)
	if err != nil {
		return err
	}
	if some := sample(data, c.effort().keys); some != data {
		if err := some.Check(); err != nil {
			return err
		}
		data = some
	}
	// Before the work: that its results can be written.
	if err := c.makeFolders(); err != nil {
		return err
	}
	if res, err = c.measureFigures(ctx, data, res, chosen, out); err != nil {
		return err
	}
	return res.draw(ctx, c.dir, out)
}

func (c config) resultsFile() string { return filepath.Join(c.dir, "results.json") }

func (c config) makeFolders() error {
	if err := os.MkdirAll(filepath.Join(c.dir, "figures"), 0o755); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	return nil
}

// chosen returns the experiments that -only names, or all.
func (c config) chosen() ([]experiment, error) {
	all := experiments()
	if c.only == "" {
		return all, nil
	}
	var some []experiment
	for name := range strings.SplitSeq(c.only, ",") {
		i := slices.IndexFunc(all, func(e experiment) bool { return strings.EqualFold(e.name, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no figure %q: F1 to F7, and C, the controls", name)
		}
		if !slices.ContainsFunc(some, func(e experiment) bool { return e.name == all[i].name }) {
			some = append(some, all[i])
		}
	}
	return some, nil
}

// measureFigures runs experiments and keeps, after each, what is known. Of
// earlier results (nil: there are none) the other figures' stay.
func (c config) measureFigures(ctx context.Context, data *benchmark.Dataset, earlier *results, chosen []experiment, out io.Writer) (*results, error) {
	dir, err := os.MkdirTemp("", "shale-report-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &runner{effort: c.effort(), c: c, data: data, dir: dir, trees: map[int]*store{}}
	r.res = r.newResults()
	if earlier != nil {
		if err := r.res.adopt(earlier, chosen); err != nil {
			return nil, fmt.Errorf("%s: %w", c.resultsFile(), err)
		}
	}
	for _, p := range r.data.Present {
		r.present = append(r.present, p.Key)
	}
	r.present, r.absent = benchmark.Shuffle(r.present), benchmark.Shuffle(r.data.Absent)
	seconds := 0
	for _, e := range chosen {
		seconds += e.weight
	}
	about := time.Duration(seconds) * time.Second
	if c.short {
		about /= 15
	}
	fmt.Fprintf(out, "%s: %d keys, %d absent ones; about %v, Ctrl-C ends it\n", data.Name, len(data.Present), len(data.Absent), about.Round(time.Second))
	r.bar = benchmark.NewProgress("", seconds*1000) // thousandths of what is expected
	defer r.bar.Done()
	for _, e := range chosen {
		r.current = e
		begin := time.Now()
		r.step(0, 1)
		if err := e.run(ctx, r); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", e.name, e.what, err)
		}
		r.before += e.weight
		r.bar.Done()
		fmt.Fprintf(out, "%-2s  %s: %.1f s\n", e.name, e.what, time.Since(begin).Seconds())
		if err := r.res.write(c.resultsFile()); err != nil {
			return nil, err
		}
	}
	return r.res, nil
}

// some returns what to measure of the values of an axis: all, or the last ones.
func some[T any](r *runner, all []T) []T {
	if r.points == 0 {
		return all
	}
	return all[len(all)-min(r.points, len(all)):]
}

// step shows that i of n parts of the current experiment are done.
func (r *runner) step(i, n int) {
	r.bar.What = r.current.name + " " + r.current.what
	r.bar.At(r.before*1000 + r.current.weight*1000*i/n)
}

func (r *runner) newResults() *results {
	return &results{
		Version: resultsVersion, Dataset: r.data.Name, Present: len(r.data.Present), Absent: len(r.data.Absent),
		Outside: r.data.Outside, Both: r.data.Both, RawBytes: benchmark.RawBytes(r.data.Present), Machine: benchmark.ThisMachine(), Short: r.c.short,
	}
}

// adopt takes over the cells that will not be measured now, of the same data.
func (r *results) adopt(earlier *results, chosen []experiment) error {
	if earlier.Dataset != r.Dataset || earlier.Present != r.Present || earlier.Absent != r.Absent || earlier.Short != r.Short {
		return fmt.Errorf("it is of other keys (%s, %d), so that figures of both can't stand in one report", earlier.Dataset, earlier.Present)
	}
	for _, c := range earlier.Cells {
		if !slices.ContainsFunc(chosen, func(e experiment) bool { return e.name == c.Figure }) {
			r.Cells = append(r.Cells, c)
		}
	}
	r.Notes = earlier.Notes
	return nil
}

// sample returns about n of the records, and of the absent keys as many. 0: all.
func sample(d *benchmark.Dataset, n int) *benchmark.Dataset {
	if n == 0 || n >= len(d.Present) {
		return d
	}
	s := *d
	s.Present, s.Absent = nil, nil
	rng := rand.New(rand.NewPCG(7, 8))
	for _, i := range rng.Perm(len(d.Present))[:n] {
		s.Present = append(s.Present, d.Present[i])
	}
	for _, i := range rng.Perm(len(d.Absent))[:min(n, len(d.Absent))] {
		s.Absent = append(s.Absent, d.Absent[i])
	}
	return &s
}

// tree returns the store with 10 bits and so many levels, made once.
func (r *runner) tree(ctx context.Context, levels int) (*store, error) {
	if s := r.trees[levels]; s != nil {
		return s, nil
	}
	s, err := recipe{levels: levels, bits: 10}.make(ctx, r.dir, r.data.Present)
	if err == nil {
		r.trees[levels] = s
	}
	return s, err
}

func (r *runner) keep(figure string, x float64, cells ...*figureCell) {
	for _, c := range cells {
		c.Figure, c.X = figure, x
		r.res.Cells = append(r.res.Cells, c)
	}
}

// misses returns n absent keys.
func (r *runner) misses(n int) stream { return stream{keys: r.absent[:min(n, len(r.absent))]} }

// cold runs fn unless files can't be dropped from the page cache here, which
// is noted once.
func (r *runner) cold(fn func() error) error {
	if r.noCold {
		return nil
	}
	err := fn()
	if errors.Is(err, vfs.ErrUnsupported) {
		r.noCold = true
		note := fmt.Sprintf("cold reads left out: %v", err)
		if !slices.Contains(r.res.Notes, note) {
			r.res.Notes = append(r.res.Notes, note)
		}
		return nil
	}
	return err
}

// mixture returns n lookups, the given share of which find their key, in
// random order, and as many other ones to warm up with.
func (r *runner) mixture(n int, hits float64) (warmUp, q stream) {
	n = min(n, len(r.present)/2, len(r.absent)/2)
	h := int(hits * float64(n))
	rng := rand.New(rand.NewPCG(9, 10))
	mix := func(present, absent [][]byte) stream {
		var s stream
		for _, p := range rng.Perm(len(present) + len(absent)) {
			if p < len(present) {
				s.keys, s.found = append(s.keys, present[p]), append(s.found, true)
			} else {
				s.keys, s.found = append(s.keys, absent[p-len(present)]), append(s.found, false)
			}
		}
		return s
	}
	return mix(r.present[:h], r.absent[:n-h]), mix(r.present[h:2*h], r.absent[n-h:2*(n-h)])
}

// cacheNeed is how much block cache all blocks of s take.
func cacheNeed(s *store) (int64, error) {
	db, err := shale.Open(s.dir, &shale.Options{ReadOnly: true, CacheSize: 2*s.raw + 64<<20})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for _, err := range db.Scan(shale.Range{}) {
		if err != nil {
			return 0, err
		}
	}
	return max(db.Metrics().CacheMemory, 1<<16), nil
}

// outside returns n keys beyond the last one of the store.
func outside(records []benchmark.Record, n int) stream {
	var last []byte
	for _, r := range records {
		if bytes.Compare(r.Key, last) > 0 {
			last = r.Key
		}
	}
	var q stream
	for i := range n {
		q.keys = append(q.keys, fmt.Appendf(nil, "%s%09d", last, i))
	}
	return q
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale/internal/benchmark"
)

// makeReport measures what c asks for and draws everything.
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
	// A folder that can't be made shows now, before the work.
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

// measureFigures runs the chosen experiments and writes the results after each. It keeps
// the cells of other figures from earlier results, which may be nil.
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
	r.bar = benchmark.NewProgress("", seconds*1000) // in thousandths of a second
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

func (r *runner) newResults() *results {
	return &results{
		Version: resultsVersion, Dataset: strings.ToValidUTF8(r.data.Name, "\uFFFD"), Present: len(r.data.Present), Absent: len(r.data.Absent),
		Outside: r.data.Outside, Both: r.data.Both, RawBytes: benchmark.RawBytes(r.data.Present), Machine: benchmark.ThisMachine(), Short: r.c.short,
	}
}

// adopt takes over the earlier cells of all figures that are not chosen.
func (r *results) adopt(earlier *results, chosen []experiment) error {
	if earlier.Dataset != r.Dataset || earlier.Present != r.Present || earlier.Absent != r.Absent || earlier.Short != r.Short {
		return fmt.Errorf("it is of other keys (%s, %d), which can't be in the same report", earlier.Dataset, earlier.Present)
	}
	for _, c := range earlier.Cells {
		if !slices.ContainsFunc(chosen, func(e experiment) bool { return e.name == c.Figure }) {
			r.Cells = append(r.Cells, c)
		}
	}
	r.Notes = earlier.Notes
	return nil
}

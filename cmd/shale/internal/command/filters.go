package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// A filterRow is a table and what is known about its filter.
type filterRow struct {
	shale.TableInfo
	asked uint64
	fpr   float64 // the measured rate, if asked > 0
}

// ratio returns the measured rate divided by the predicted one.
func (r *filterRow) ratio() float64 {
	if r.PredictedFPR == 0 {
		return 0
	}
	return r.fpr / r.PredictedFPR
}

// filtersCommand shows the predicted and the measured false positive rates of filters.
func filtersCommand() *Command {
	var worst, probes int
	c := newCommand("filters [LEVEL]", Reads, "the filters: bits, false positives, memory", `
Prints a line for each level, and then one for each table: the kind of the filter, its hash function, the file
that it is in, the bits a key, its memory, and the predicted and the measured false positive rate. The measured
rate is that of the lookups since this program opened the store. So it needs lookups at the same prompt or in
the same script, or --probe; - stands for none. The ratio is the measured rate divided by the predicted one; it
should be 1.`)
	c.count(&worst, "worst", "only the N filters with the highest ratio")
	c.count(&probes, "probe", "measure now, with N absent keys for each filter")
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		if err := s.awaitLoaded(ctx); err != nil {
			return Failed, err
		}
		list, err := s.tablesOf(words, nil)
		if err != nil {
			return Failed, err
		}
		rows := make([]filterRow, len(list))
		for i, t := range list {
			rows[i] = filterRow{t, t.Asked, t.MeasuredFPR}
		}
		if probes > 0 {
			if err := s.probe(ctx, rows, probes); err != nil {
				return Failed, err
			}
		}
		if worst > 0 {
			rows = worstRows(rows, worst)
		}
		g := output.NewGrid("level", ">table", "kind", "hash", "in", ">bits/key", ">memory", ">predicted FPR", ">measured", ">ratio", ">asked")
		if worst == 0 {
			s.levelRows(g, list)
		}
		for i := range rows {
			t := &rows[i]
			ratio, hash := output.NoCell("-"), output.Cell{Text: t.FilterHash}
			if t.asked > 0 && t.PredictedFPR > 0 {
				ratio = output.FloatCell("%.2f", t.ratio())
			}
			if t.FilterHash == "" {
				hash = output.NoCell("-")
			}
			g.Row(levelName(t.Level), tableName(t.Number), t.FilterKind, hash, cmp.Or(t.FilterFile, "table"), bits(t.FilterBits), output.SizeCell(t.FilterBytes),
				output.PercentCell(t.PredictedFPR), measured(t.fpr, t.asked), ratio, t.asked)
		}
		return foundIf(len(rows) > 0), s.Show(g)
	})
}

// levelRows adds a row of sums for each level.
func (s *Session) levelRows(g *output.Grid, tables []shale.TableInfo) {
	listed := map[int]bool{}
	for _, t := range tables {
		listed[t.Level] = true
	}
	for _, l := range s.DB.Metrics().Levels {
		if listed[l.Level] {
			g.Row(levelName(l.Level), "all", "", "", "", bits(l.FilterBits), output.SizeCell(l.FilterBytes),
				output.PercentCell(l.PredictedFPR), measured(l.MeasuredFPR, l.FilterAsked), output.NoCell(""), l.FilterAsked)
		}
	}
}

// worstRows returns the rows with the highest ratios, and at most this many.
func worstRows(rows []filterRow, most int) []filterRow {
	rows = slices.DeleteFunc(rows, func(r filterRow) bool { return r.asked == 0 || r.FilterBits == 0 })
	slices.SortStableFunc(rows, func(a, b filterRow) int { return cmp.Compare(b.ratio(), a.ratio()) })
	return rows[:min(most, len(rows))]
}

// probe asks each filter for this many random hashes. The hashes of absent keys are like random
// numbers, so this measures the false positive rate.
func (s *Session) probe(ctx context.Context, rows []filterRow, probes int) error {
	f, err := s.lookInto()
	if err != nil {
		return err
	}
	places := map[uint64]place{}
	for _, p := range f.places() {
		places[uint64(p.table.Num)] = p
	}
	for i := range rows {
		r := &rows[i]
		r.asked, r.fpr = 0, 0
		p, there := places[r.Number]
		if !there || r.FilterBits == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		reader, release, err := f.reader(p.table)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a writer has removed it
		}
		if err != nil {
			return fmt.Errorf("filters: %w", err)
		}
		if filter := reader.Filter(); filter != nil {
			yes := 0
			for range probes {
				if filter.MayContainHash(rand.Uint64()) {
					yes++
				}
			}
			r.asked, r.fpr = uint64(probes), float64(yes)/float64(probes)
		}
		release()
	}
	return nil
}

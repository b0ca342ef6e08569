package command

import (
	"cmp"
	"context"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// filtersCommand shows the predicted and the measured false positive rates of filters.
//
// The predicted rate follows from bits and keys, the measured one from lookups. If the measured one
// is much higher, keys collide more often than random ones would: strangers may choose them (--hash
// siphash).
//
// For example:
//
//	level   table  kind     hash     in     bits/key     memory  predicted  measured  ratio  asked
//	L6        all                               24.0  147.9 KiB  0.00166 %         -      -      0
//	L6     000006  blocked  murmur3  table      24.0  147.9 KiB  0.00166 %         -      -      0
func filtersCommand() *Command {
	c := newCommand("filters [LEVEL]", Reads, "the filters: bits, false positives, memory", `
Prints a line for each level, and then one for each table: the kind of the filter, its hash function, the file
that it is in, the bits a key, its memory, and the predicted and the measured false positive rate. The measured
rate is that of the lookups since this program opened the store. So it needs lookups at the same prompt or in
the same script; - stands for none. The ratio is the measured rate divided by the predicted one; it should be 1.`)
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		if err := s.awaitLoaded(ctx); err != nil {
			return Failed, err
		}
		list, err := s.tablesOf(words)
		if err != nil {
			return Failed, err
		}
		g := output.NewGrid("level", ">table", "kind", "hash", "in", ">bits/key", ">memory", ">predicted", ">measured", ">ratio", ">asked")
		s.levelRows(g, list)
		for i := range list {
			t := &list[i]
			hash := output.Cell{Text: t.FilterHash}
			if t.FilterHash == "" {
				hash = output.NoCell("-")
			}
			g.Row(levelName(t.Level), tableName(t.Number), t.FilterKind, hash, cmp.Or(t.FilterFile, "table"), bits(t.FilterBits), output.SizeCell(t.FilterBytes),
				output.PercentCell(t.PredictedFPR), measured(t.MeasuredFPR, t.Asked), ratioOf(t.MeasuredFPR, t.PredictedFPR, t.Asked), t.Asked)
		}
		return foundIf(len(list) > 0), s.Show(g)
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
				output.PercentCell(l.PredictedFPR), measured(l.MeasuredFPR, l.FilterAsked), ratioOf(l.MeasuredFPR, l.PredictedFPR, l.FilterAsked), l.FilterAsked)
		}
	}
}

// ratioOf returns a cell with the measured rate divided by the predicted one, or with none if nobody has asked.
func ratioOf(measured, predicted float64, asked uint64) output.Cell {
	if asked == 0 || predicted == 0 {
		return output.NoCell("-")
	}
	return output.FloatCell("%.2f", measured/predicted)
}

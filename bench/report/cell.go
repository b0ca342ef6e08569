package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/benchmark"
)

// A cell is one measurement for one figure. A count that is not known is -1.
type cell struct {
	X             float64 // the value of what the figure varies
	Filters, Cold bool

	Keys        int
	TableBytes  int64
	Runs        int
	Levels      []benchmark.Level
	FilterBytes int64

	Lookups      int
	Seconds      float64
	Blocks       float64 // looked into; this and the next fields are for each lookup
	BlockReads   float64
	BytesRead    float64
	Preads       float64
	DeviceBytes  float64
	MeasuredFPR  float64
	PredictedFPR float64
	LevelFPR     []float64 // measured, for each of Levels
}

// cell returns a cell for s without measurements.
func (s *store) cell(w way) *cell {
	return &cell{Filters: w.filters, Cold: w.cold, Keys: s.keys, TableBytes: s.bytes, Runs: s.runs, Levels: s.levels}
}

// add adds the counts of a pass: the cell has means over all lookups. As nothing is
// cached, every pass must count the same.
func (c *cell) add(r benchmark.Counts, m shale.Metrics) error {
	n := float64(r.Lookups)
	if r.Lookups == c.Lookups && r.BlocksPerLookup != c.Blocks {
		return fmt.Errorf("the same %d lookups looked into %v blocks each, and then into %v", r.Lookups, c.Blocks, r.BlocksPerLookup)
	}
	old := float64(c.Lookups)
	mean := func(to *float64, value float64) { *to = (*to*old + value*n) / max(old+n, 1) }
	mean(&c.Blocks, r.BlocksPerLookup)
	mean(&c.BlockReads, r.ReadsPerLookup)
	mean(&c.BytesRead, r.BytesPerLookup)
	mean(&c.MeasuredFPR, r.MeasuredFPR)
	if r.Preads < 0 || c.Preads < 0 {
		c.Preads, c.DeviceBytes = -1, -1
	} else {
		mean(&c.Preads, float64(r.Preads)/n)
		mean(&c.DeviceBytes, float64(r.DeviceBytes)/n)
	}
	c.Lookups += r.Lookups
	c.Seconds += r.Seconds
	c.PredictedFPR, c.FilterBytes = r.PredictedFPR, r.FilterMemory
	if c.Filters {
		c.LevelFPR = nil
		for _, l := range m.Levels {
			if l.Tables > 0 {
				c.LevelFPR = append(c.LevelFPR, l.MeasuredFPR)
			}
		}
	}
	return nil
}

// The words for false and true.
var fileWords, filterWords = [2]string{"warm", "cold"}, [2]string{"ignored", "on"}

func word(is bool, words [2]string) string {
	if is {
		return words[1]
	}
	return words[0]
}

// printTable prints a line for each cell.
func printTable(w io.Writer, cells []*cell) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer func() { _ = t.Flush() }() // to memory
	fmt.Fprintln(t, "x\tfiles\tfilters\tlookups\tblock reads\tpreads\tbytes\tfrom the device\t"+
		"false positives, %\tpredicted, %\tfilters, MB\truns\tns\t")
	for _, c := range cells {
		fmt.Fprintf(t, "%.0f\t%s\t%s\t%d\t%.5f\t%.5f\t%.1f\t%.1f\t", c.X, word(c.Cold, fileWords), word(c.Filters, filterWords),
			c.Lookups, c.BlockReads, c.Preads, c.BytesRead, c.DeviceBytes)
		fmt.Fprintf(t, "%.4f\t%.4f\t%.2f\t%d\t%.0f\t\n", 100*c.MeasuredFPR, 100*c.PredictedFPR,
			float64(c.FilterBytes)/1e6, c.Runs, c.Seconds*1e9/float64(max(c.Lookups, 1)))
	}
}

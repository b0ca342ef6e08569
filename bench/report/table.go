package main

import "fmt"

// A column of a table of cells.
type column struct {
	title  string
	value  func(c *cell) float64
	format string // for fmt; "" means that the value is the index of one of words
}

var words = map[string][2]string{"files": {"warm", "cold"}, "filters": {"ignored", "on"}}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	colCold      = column{"files", func(c *cell) float64 { return bit(c.Cold) }, ""}
	colFilters   = column{"filters", func(c *cell) float64 { return bit(c.Filters) }, ""}
	colLookups   = column{"lookups", func(c *cell) float64 { return float64(c.Lookups) }, "%.0f"}
	colBlocks    = column{"blocks each", func(c *cell) float64 { return c.Blocks }, "%.4f"}
	colReads     = column{"block reads each", func(c *cell) float64 { return c.BlockReads }, "%.5f"}
	colPreads    = column{"preads each", func(c *cell) float64 { return c.Preads }, "%.5f"}
	colBytes     = column{"bytes read each", func(c *cell) float64 { return c.BytesRead }, "%.1f"}
	colDevice    = column{"from the device", func(c *cell) float64 { return c.DeviceBytes }, "%.1f"}
	colNanos     = column{"ns each", (*cell).nanos, "%.0f"}
	colFPR       = column{"false positives, %", func(c *cell) float64 { return 100 * c.MeasuredFPR }, "%.4f"}
	colPredicted = column{"predicted, %", func(c *cell) float64 { return 100 * c.PredictedFPR }, "%.4f"}
	colRuns      = column{"runs", func(c *cell) float64 { return float64(c.Runs) }, "%.0f"}
)

// table returns a row of titles, and one for each cell.
func table(cells []*cell, columns ...column) [][]string {
	rows := [][]string{nil}
	for _, col := range columns {
		rows[0] = append(rows[0], col.title)
	}
	for _, c := range cells {
		var row []string
		for _, col := range columns {
			v := col.value(c)
			switch {
			case col.format == "":
				row = append(row, words[col.title][int(v)])
			case v < 0:
				row = append(row, "-")
			default:
				row = append(row, fmt.Sprintf(col.format, v))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

package report

import (
	"fmt"

	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/internal/svg"
)

// A Table has a row for each workload and store.
type Table struct {
	Title, Note string
	Columns     []string
	Rows        []Row
}

// A Row is the first of its workload or not.
type Row struct {
	First    bool
	Workload string
	Store    store
	Cells    []string
}

// A column is a figure of which rows show the median.
type column struct {
	title  string
	format func(float64) string
	figure func(*results.Run) float64 // nil: the spread of the throughput over the rounds
}

func (c *column) value(cell *results.Cell) float64 {
	if c.figure == nil {
		return cell.Spread(results.Rate)
	}
	return cell.Median(c.figure)
}

// trim is a number with three digits or more.
func trim(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return svg.Short(v)
}

func micros(v float64) string    { return svg.Duration(1e3 * v) }
func percent(v float64) string   { return fmt.Sprintf("%.1f", 100*v) }
func megabytes(v float64) string { return trim(v / 1e6) }

// known shows what an engine does not tell as a dash.
func known(v float64) string {
	if v < 0 {
		return "–"
	}
	return svg.Short(v)
}

// Tables have all figures.
func (p *page) Tables() []Table {
	always := func(*results.Run) bool { return true }
	tables := []Table{
		p.table("Speed", "Medians over the rounds. Own is the part of ns/op that the benchmark takes for keys, values, checks and the clock. The spread is the highest throughput of a round over the lowest. Latency is that of single operations: each write, one in 16 reads; of scans, 1000 entries.", speed, always),
		p.table("Resources, by operation", "Of the whole process, background work included. Bytes read and written are those of calls; dirtied are pages of files, by calls or through a mapping.", resources, always),
		p.table("Writes", "Bytes written over the bytes of keys and values: the larger of what calls wrote and what pages of files were dirtied.", writes, func(r *results.Run) bool { return r.Write != nil && r.Write.SecondsToSettled > 0 }),
		p.table("After the fill", "The directory is that of the settled, closed store.", fills, func(r *results.Run) bool { return r.Fill != nil }),
		p.table("Counted by the engines, by lookup", "", engines, func(r *results.Run) bool { return r.Engine != nil && r.Engine.BlockReads != results.Unknown }),
	}
	var filled []Table
	for _, t := range tables {
		if len(t.Rows) > 0 {
			filled = append(filled, t)
		}
	}
	return filled
}

func (p *page) table(title, note string, columns []column, has func(*results.Run) bool) Table {
	t := Table{Title: title, Note: note}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.title)
	}
	for _, workload := range p.sum.Workloads {
		first := true
		for _, s := range p.Stores {
			cell := p.sum.Cell(workload, s.Name)
			if cell == nil || !has(&cell.Rounds[0]) {
				continue
			}
			row := Row{First: first, Workload: workload, Store: s}
			if cell.Cut() {
				row.Store.Name += " *"
			}
			first = false
			for _, c := range columns {
				row.Cells = append(row.Cells, c.format(c.value(cell)))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

var speed = []column{
	{"ops/s", svg.Short, results.Rate},
	{"spread", trim, nil},
	{"ns/op", svg.Short, func(r *results.Run) float64 { return r.NanosPerOp }},
	{"own", svg.Short, func(r *results.Run) float64 { return r.OwnNanosPerOp }},
	{"p50", micros, func(r *results.Run) float64 { return r.Latency.P50 }},
	{"p99", micros, func(r *results.Run) float64 { return r.Latency.P99 }},
	{"p99.9", micros, func(r *results.Run) float64 { return r.Latency.P999 }},
	{"max", micros, func(r *results.Run) float64 { return r.Latency.Max }},
	{"CPU ns", svg.Short, func(r *results.Run) float64 { return r.CPUNanosPerOp }},
	{"GC %", percent, func(r *results.Run) float64 { return r.GCShare }},
	{"peak MB", megabytes, func(r *results.Run) float64 { return float64(r.PeakBytes) }},
	{"anon MB", megabytes, func(r *results.Run) float64 { return float64(r.AnonBytes) }},
}

var resources = []column{
	{"allocations", svg.Short, func(r *results.Run) float64 { return r.AllocsPerOp }},
	{"their bytes", svg.Short, func(r *results.Run) float64 { return r.BytesPerOp }},
	{"read calls", svg.Short, func(r *results.Run) float64 { return r.IO.ReadCalls }},
	{"bytes read", svg.Short, func(r *results.Run) float64 { return r.IO.ReadBytes }},
	{"from device", svg.Short, func(r *results.Run) float64 { return r.IO.DeviceRead }},
	{"write calls", svg.Short, func(r *results.Run) float64 { return r.IO.WriteCalls }},
	{"bytes written", svg.Short, func(r *results.Run) float64 { return r.IO.WrittenBytes }},
	{"dirtied", svg.Short, func(r *results.Run) float64 { return r.IO.DirtiedBytes }},
}

var writes = []column{
	{"amplification", trim, func(r *results.Run) float64 { return r.Write.AmpAtEnd }},
	{"settled", trim, func(r *results.Run) float64 { return r.Write.AmpSettled }},
	{"settling, s", trim, func(r *results.Run) float64 { return r.Write.SettleSeconds }},
	{"in all, s", trim, func(r *results.Run) float64 { return r.Write.SecondsToSettled }},
	{"longest stall, ms", trim, func(r *results.Run) float64 { return r.Write.LongestStall }},
}

var fills = []column{
	{"directory, MB", megabytes, func(r *results.Run) float64 { return float64(r.Fill.DirBytes) }},
	{"over user bytes", trim, func(r *results.Run) float64 { return r.Fill.SpaceAmp }},
	{"live tables, MB", megabytes, func(r *results.Run) float64 { return float64(r.Fill.LiveBytes) }},
	{"close, ms", trim, func(r *results.Run) float64 { return r.Fill.CloseMillis }},
	{"reopen, ms", trim, func(r *results.Run) float64 { return r.Fill.ReopenMillis }},
}

var engines = []column{
	{"blocks read", known, func(r *results.Run) float64 { return r.Engine.BlockReads }},
	{"false positives", known, func(r *results.Run) float64 { return r.Engine.FalsePositives }},
	{"predicted", known, func(r *results.Run) float64 { return r.Engine.PredictedFPR }},
}

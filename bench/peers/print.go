package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/shaledb/shale/bench/peers/internal/figures"
	"github.com/shaledb/shale/bench/peers/internal/results"
)

// A column of a table is one figure of every run.
type column struct {
	title, format string
	figure        func(*results.Run) float64 // nil: the highest throughput of a round over the lowest
}

func (c *column) of(cell *results.Cell) float64 {
	if c.figure == nil {
		return cell.Spread(results.Rate)
	}
	return cell.Median(c.figure)
}

var mainColumns = []column{
	{"k ops/s", "%.1f", func(r *results.Run) float64 { return r.OpsPerSecond / 1e3 }},
	{"spread", "%.2f", nil},
	{"ns/op", "%.0f", func(r *results.Run) float64 { return r.NanosPerOp }},
	{"own", "%.0f", func(r *results.Run) float64 { return r.OwnNanosPerOp }},
	{"p50 us", "%.2f", func(r *results.Run) float64 { return r.Latency.P50 }},
	{"p99", "%.2f", func(r *results.Run) float64 { return r.Latency.P99 }},
	{"p99.9", "%.2f", func(r *results.Run) float64 { return r.Latency.P999 }},
	{"max", "%.0f", func(r *results.Run) float64 { return r.Latency.Max }},
	{"CPU ns", "%.0f", func(r *results.Run) float64 { return r.CPUNanosPerOp }},
	{"GC %", "%.1f", func(r *results.Run) float64 { return 100 * r.GCShare }},
	{"peak MB", "%.0f", func(r *results.Run) float64 { return float64(r.PeakBytes) / 1e6 }},
	{"anon", "%.0f", func(r *results.Run) float64 { return float64(r.AnonBytes) / 1e6 }},
}

// resourceColumns are of the whole process, for an operation.
var resourceColumns = []column{
	{"allocs", "%.2f", func(r *results.Run) float64 { return r.AllocsPerOp }},
	{"their bytes", "%.0f", func(r *results.Run) float64 { return r.BytesPerOp }},
	{"read calls", "%.4f", func(r *results.Run) float64 { return r.IO.ReadCalls }},
	{"bytes read", "%.0f", func(r *results.Run) float64 { return r.IO.ReadBytes }},
	{"from device", "%.0f", func(r *results.Run) float64 { return r.IO.DeviceRead }},
	{"write calls", "%.4f", func(r *results.Run) float64 { return r.IO.WriteCalls }},
	{"written", "%.0f", func(r *results.Run) float64 { return r.IO.WrittenBytes }},
	{"dirtied", "%.0f", func(r *results.Run) float64 { return r.IO.DirtiedBytes }},
}

var writeColumns = []column{
	{"settle s", "%.2f", func(r *results.Run) float64 { return r.Write.SettleSeconds }},
	{"stall ms", "%.1f", func(r *results.Run) float64 { return r.Write.LongestStall }},
	{"write amp", "%.2f", func(r *results.Run) float64 { return r.Write.AmpAtEnd }},
	{"settled", "%.2f", func(r *results.Run) float64 { return r.Write.AmpSettled }},
	{"dir MB", "%.0f", func(r *results.Run) float64 { return float64(r.Write.DirBytes) / 1e6 }},
}

var fillColumns = []column{
	{"space amp", "%.2f", func(r *results.Run) float64 { return r.Fill.SpaceAmp }},
	{"dir MB", "%.0f", func(r *results.Run) float64 { return float64(r.Fill.DirBytes) / 1e6 }},
	{"live MB", "%.0f", func(r *results.Run) float64 { return float64(r.Fill.LiveBytes) / 1e6 }},
	{"close ms", "%.1f", func(r *results.Run) float64 { return r.Fill.CloseMillis }},
	{"reopen ms", "%.1f", func(r *results.Run) float64 { return r.Fill.ReopenMillis }},
}

// printTable prints medians over the rounds, and ratios of throughput to the
// first store: above 1, that is ahead.
func printTable(out io.Writer, f *results.File) {
	s := f.Summary()
	fmt.Fprintf(out, "%s; %d entries, %s keys, values of %d bytes; medians of %d rounds\nx: times slower than %s; own: the benchmark's part of ns/op; *: cut by the budget\n",
		f.Machine, f.Settings.Entries, f.Settings.Keys, f.Settings.ValueBytes, f.Settings.Rounds, s.Base())
	always := func(*results.Run) bool { return true }
	table(out, s, "x", mainColumns, always)
	table(out, s, "", resourceColumns, always)
	table(out, s, "", writeColumns, func(r *results.Run) bool { return r.Write != nil && r.Write.SecondsToSettled > 0 })
	table(out, s, "", fillColumns, func(r *results.Run) bool { return r.Fill != nil })
	fmt.Fprintln(out, "\nAs many raw reads of the same files, asked for all at once: what cold seeks take without a store")
	table(out, s, "", []column{
		{"reads", "%.2f", func(r *results.Run) float64 { return r.Raw.Reads }},
		{"bytes each", "%.0f", func(r *results.Run) float64 { return float64(r.Raw.ReadBytes) }},
		{"device bytes", "%.0f", func(r *results.Run) float64 { return r.Raw.DeviceRead }},
		{"ns/op", "%.0f", func(r *results.Run) float64 { return r.Raw.NanosPerOp }},
		{"p50 us", "%.2f", func(r *results.Run) float64 { return r.Raw.P50 }},
		{"p99", "%.2f", func(r *results.Run) float64 { return r.Raw.P99 }},
		{"CPU ns", "%.0f", func(r *results.Run) float64 { return r.Raw.CPUNanosPerOp }},
	}, func(r *results.Run) bool { return r.Raw != nil })
	fmt.Fprintln(out, "\nTransactions of all clients together")
	table(out, s, "x", []column{
		{"us each", "%.2f", func(r *results.Run) float64 { return 1e6 / r.OpsPerSecond }},
		{"tries", "%.3f", func(r *results.Run) float64 { return r.Tries }},
	}, func(r *results.Run) bool { return r.Tries > 0 })
	fmt.Fprintln(out, "\nCounted by the engines, a lookup")
	table(out, s, "", []column{
		{"block reads", "%.4f", func(r *results.Run) float64 { return r.Engine.BlockReads }},
		{"false positives", "%.5f", func(r *results.Run) float64 { return r.Engine.FalsePositives }},
		{"predicted", "%.5f", func(r *results.Run) float64 { return r.Engine.PredictedFPR }},
	}, func(r *results.Run) bool { return r.Engine != nil && r.Engine.BlockReads != results.Unknown })
}

func table(out io.Writer, s *results.Summary, ratio string, columns []column, has func(*results.Run) bool) {
	w := figures.Columns(out)
	defer func() { _ = w.Flush() }() // a table that can't be printed has no other reader
	fmt.Fprintf(w, "\nworkload\tstore\t%s\t", ratio)
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t", c.title)
	}
	fmt.Fprintln(w)
	for _, workload := range s.Workloads {
		for _, store := range s.Stores {
			cell := s.Cell(workload, store)
			if cell == nil || !has(&cell.Rounds[0]) {
				continue
			}
			row(w, s, cell, ratio != "", columns)
		}
	}
}

func row(w *tabwriter.Writer, s *results.Summary, cell *results.Cell, ratio bool, columns []column) {
	mark := ""
	if cell.Cut() {
		mark = " *"
	}
	fmt.Fprintf(w, "%s\t%s%s\t", cell.Workload, cell.Store, mark)
	if r, ok := s.Ratio(cell.Workload, cell.Store); ratio && ok {
		fmt.Fprintf(w, "%.2f", r)
	}
	fmt.Fprint(w, "\t")
	for _, c := range columns {
		fmt.Fprintf(w, c.format+"\t", c.of(cell))
	}
	fmt.Fprintln(w)
}

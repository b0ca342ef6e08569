package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/shaledb/shale/bench/peers/internal/figures"
)

// print writes the report as tables to read.
func (r *report) print(w io.Writer) {
	s := r.Setting
	fmt.Fprintf(w, "%d entries, keys %s; %d lookups of each reader a round, %d rounds; memtable %.0f MB, cache %.0f MB, small cache %.1f MB\n",
		s.Entries, s.Keys, s.Reads, s.Rounds, mega(s.Memtable), mega(s.Cache), mega(s.SmallCache))
	fmt.Fprintf(w, "%s\n\n", r.Machine)
	r.printTimes(w)
	r.printCounts(w)
	r.printShapes(w)
}

func (r *report) printTimes(w io.Writer) {
	t := figures.Columns(w)
	fmt.Fprint(t, "ns/op, median (times shale's)\t")
	for _, e := range r.engines {
		fmt.Fprintf(t, "%s\t", e)
	}
	fmt.Fprintln(t)
	for _, workload := range r.workloads {
		fmt.Fprintf(t, "%s\t", workload)
		for _, e := range r.engines {
			switch x := r.find(workload, e); {
			case x == nil:
				fmt.Fprint(t, "-\t")
			case e == "shale" || x.Ratio == 0:
				fmt.Fprintf(t, "%.0f\t", x.Median)
			default:
				fmt.Fprintf(t, "%.0f (%.2f)\t", x.Median, x.Ratio)
			}
		}
		fmt.Fprintln(t)
	}
	if len(r.Scaling) > 0 {
		fmt.Fprint(t, "throughput of 2 readers / of one\t")
		for _, e := range r.engines {
			i := slices.IndexFunc(r.Scaling, func(s scaling) bool { return s.Engine == e })
			fmt.Fprintf(t, "%.2f\t", r.Scaling[i].Ratio)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// printCounts has a line for each workload that reads and each engine.
func (r *report) printCounts(w io.Writer) {
	t := figures.Columns(w)
	fmt.Fprintln(t, "\n\t\t\tread calls,\tblocks read,\tfalse positives\t\t")
	fmt.Fprintln(t, "a lookup\t\tallocations\tby the OS\tby the engine\tpredicted\tmeasured\t")
	lines := 0
	for _, workload := range r.workloads {
		for _, e := range r.engines {
			x := r.find(workload, e)
			if x == nil || x.Allocs == nil {
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", workload, e, figures.Number("%.2f", x.Allocs, 1), figures.Number("%.4f", x.ReadCalls, 1),
				figures.Number("%.4f", x.BlockReads, 1), figures.Number("%.3f %%", x.Predicted, 100), figures.Number("%.3f %%", x.FalsePositives, 100))
			lines++
		}
	}
	if lines > 0 {
		t.Flush()
	}
}

// printShapes shows the levels that were read.
func (r *report) printShapes(w io.Writer) {
	if len(r.Shapes) == 0 {
		return
	}
	t := figures.Columns(w)
	fmt.Fprintln(t, "\nlevels\tstore\tlevel\truns\ttables\tMB\tentries\tbits/key\tpredicted false positives\t")
	for _, s := range r.Shapes {
		var all level
		for _, l := range s.Levels {
			fmt.Fprintf(t, "%s\t%s\tL%d\t", s.Phase, s.Store, l.Level)
			l.print(t)
			all.add(l)
		}
		if all.Entries > 0 {
			fmt.Fprintf(t, "%s\t%s\tall\t", s.Phase, s.Store)
			all.print(t)
		}
	}
	t.Flush()
}

func (l level) print(w io.Writer) {
	fmt.Fprintf(w, "%d\t%d\t%.1f\t", l.Runs, l.Tables, mega(l.Bytes))
	if l.Entries == 0 {
		fmt.Fprint(w, "-\t-\t-\t\n")
		return
	}
	fmt.Fprintf(w, "%d\t%.2f\t%.4f %%\t\n", l.Entries, l.FilterBits, 100*l.PredictedFPR)
}

// add makes l the sum of both; filter bits are averaged over the entries.
func (l *level) add(other level) {
	if entries := l.Entries + other.Entries; entries > 0 {
		l.FilterBits = (l.FilterBits*float64(l.Entries) + other.FilterBits*float64(other.Entries)) / float64(entries)
	}
	l.Runs += other.Runs
	l.Tables += other.Tables
	l.Bytes += other.Bytes
	l.Entries += other.Entries
	l.PredictedFPR += other.PredictedFPR
}

func mega(n int64) float64 { return float64(n) / 1e6 }

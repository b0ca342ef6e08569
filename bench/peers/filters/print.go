package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/shaledb/shale/bench/peers/internal/figures"
)

// print writes the report as tables to read.
func (r *report) print(w io.Writer) {
	s := r.Setting
	fmt.Fprintf(w, "keys: %s; %d questions of each kind a round, %d rounds; %s\n%s\n", s.Keys, s.Asks, s.Rounds, s.Clock, r.Machine)
	for _, n := range r.sizes() {
		fmt.Fprintf(w, "\n%s keys. ns a key, median (times that of the first of shale's in the group)\n", count(n))
		r.printTimes(w, n)
		fmt.Fprintf(w, "\n%s keys. False positives, memory, allocations\n", count(n))
		r.printRates(w, n)
	}
	r.printVerdict(w)
}

func (r *report) sizes() []int {
	var all []int
	for _, f := range r.Filters {
		if !slices.Contains(all, f.Keys) {
			all = append(all, f.Keys)
		}
	}
	return all
}

var works = []string{"add", "hit", "miss", "remove"}

// A column is a workload that some filter has.
type column struct{ work, form string }

func (r *report) columns() []column {
	var all []column
	for _, form := range r.forms {
		for _, work := range works {
			has := func(x *result) bool { return x.Work == work && x.Form == form }
			if slices.ContainsFunc(r.Results, has) {
				all = append(all, column{work, form})
			}
		}
	}
	return all
}

// inGroups calls do with the filters of n keys, and before each group's with its
// description.
func (r *report) inGroups(n int, head func(group), do func(*filterReport)) {
	for _, g := range groups {
		first := true
		for _, f := range r.Filters {
			if f.Keys != n || f.Group != g.name {
				continue
			}
			if first {
				head(g)
				first = false
			}
			do(f)
		}
	}
}

func (r *report) printTimes(w io.Writer, n int) {
	columns := r.columns()
	t := figures.Columns(w)
	fmt.Fprint(t, "\t")
	for _, c := range columns {
		fmt.Fprintf(t, "%s %s\t", c.work, c.form)
	}
	fmt.Fprintln(t)
	head := func(g group) {
		fmt.Fprintf(t, "[%s]\t", g.name)
		for range columns {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
	}
	r.inGroups(n, head, func(f *filterReport) {
		fmt.Fprintf(t, "%s\t", f.Filter)
		for _, c := range columns {
			switch x := r.find(n, f.Filter, c.work, c.form); {
			case x == nil:
				fmt.Fprint(t, "-\t")
			case x.Ratio == 0 || x == r.firstOurs(x):
				fmt.Fprintf(t, "%.1f\t", x.Median)
			default:
				fmt.Fprintf(t, "%.1f (%.2f)\t", x.Median, x.Ratio)
			}
		}
		fmt.Fprintln(t)
	})
	t.Flush()
}

func (r *report) printRates(w io.Writer, n int) {
	t := figures.Columns(w)
	fmt.Fprintln(t, "\tbits a key\tmeasured\tin theory\tabsent keys\tallocs an add\tbytes\tallocs a question\tgoroutines\t")
	head := func(g group) { fmt.Fprintf(t, "[%s]\t\t\t\t\t\t\t\t\t\n", g.name) }
	r.inGroups(n, head, func(f *filterReport) {
		var adds, bytes, asks *float64
		if x := r.find(n, f.Filter, "add", r.forms[0]); x != nil {
			adds, bytes = &x.Allocs, &x.Bytes
		}
		if x := r.find(n, f.Filter, "miss", r.forms[0]); x != nil {
			asks = &x.Allocs
		}
		many := "one"
		if f.Safe {
			many = "any"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", f.Filter, f.BitsPerKey,
			figures.Number("%.4f %%", f.Measured, 100), figures.Number("%.4f %%", f.Theory, 100), count(f.Absent),
			figures.Number("%.3f", adds, 1), figures.Number("%.1f", bytes, 1), figures.Number("%.3f", asks, 1), many)
	})
	t.Flush()
}

// printVerdict says which targets are met, and where a peer is ahead.
func (r *report) printVerdict(w io.Writer) {
	if len(r.Targets) > 0 {
		fmt.Fprintln(w, "\nTargets")
	}
	t := figures.Columns(w)
	for _, x := range r.Targets {
		met := "met"
		if !x.Met {
			met = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\t\n", x.What, x.Got, x.Want, met)
	}
	t.Flush()
	fmt.Fprintf(w, "\nA peer is faster than each of shale's in the group, by more than %.0f %%: %d times\n", 100*noise, len(r.Behind))
	t = figures.Columns(w)
	for _, x := range r.Behind {
		fmt.Fprintf(t, "%s keys, %s\t%s\t%s\t%.1f ns\tshale's best %.1f ns\t\n", count(x.Keys), x.Group, x.Work, x.Peer, x.Nanos, x.Ours)
	}
	t.Flush()
	fmt.Fprintf(w, "\nNone of shale's in the group has as few bits and as low a rate: %d times\n", len(r.Smaller))
	t = figures.Columns(w)
	for _, f := range r.Smaller {
		fmt.Fprintf(t, "%s keys, %s\t%s\t%.2f bits a key\t%.4f %%\t\n", count(f.Keys), f.Group, f.Filter, f.BitsPerKey, 100**f.Measured)
	}
	t.Flush()
	for _, x := range r.Refused {
		fmt.Fprintf(w, "\n%s refused a key of the %s that it was sized for, and was filled anew: %d times\n", x.Filter, count(x.Keys), x.Times)
	}
	fmt.Fprintln(w, "\nWhat is equal in a group")
	for _, g := range groups {
		if slices.ContainsFunc(r.Filters, func(f *filterReport) bool { return f.Group == g.name }) {
			fmt.Fprintf(w, "  %s: %s\n", g.name, g.equal)
		}
	}
}

// count prints a number with a blank between thousands.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

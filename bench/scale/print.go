package main

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"github.com/shaledb/shale/internal/base"
)

// A column has the figures of a store, by the names of the rows.
type column struct {
	spec
	figures map[string]float64
}

// print prints a table for the stores of small tables, and one for those of many keys. The
// first column of each is what the others are compared with.
func (c config) print(out io.Writer, all []column) error {
	fmt.Fprintf(out, "%s/%s, %d CPUs, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	var small, usual []column
	for _, col := range all {
		if col.tables > 0 {
			small = append(small, col)
		} else {
			usual = append(usual, col)
		}
	}
	for _, part := range [][]column{small, usual} {
		if len(part) == 0 {
			continue
		}
		fmt.Fprintln(out)
		if err := c.printPart(out, part); err != nil {
			return err
		}
	}
	return nil
}

// printPart prints a table.
func (c config) printPart(out io.Writer, columns []column) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%-*s", nameWidth(), "")
	for i, col := range columns {
		fmt.Fprintf(w, "\t%s", col.title())
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
	}
	fmt.Fprintln(w, "\t")
	for _, g := range groups {
		for _, r := range g.rows {
			if _, measured := columns[0].figures[r.name]; measured && c.rows.MatchString(r.name) {
				printRow(w, r, columns)
			}
		}
	}
	return w.Flush()
}

// printRow prints the figures of a row, and behind each but the first how many times the
// first it is.
func printRow(w io.Writer, r row, columns []column) {
	fmt.Fprintf(w, "%-*s", nameWidth(), r.name) // names begin at the left, figures end at the right
	first := columns[0].figures[r.name]
	for i, col := range columns {
		f := col.figures[r.name]
		fmt.Fprintf(w, "\t%s", r.unit.format(f))
		switch {
		case i > 0 && first > 0:
			fmt.Fprintf(w, "\t%.2f ×", f/first)
		case i > 0:
			fmt.Fprint(w, "\t-")
		}
	}
	fmt.Fprintln(w, "\t")
}

// format returns a figure with its unit.
func (u unit) format(v float64) string {
	switch {
	case u == inBytes && v < 1024:
		return fmt.Sprintf("%.3g B", v)
	case u == inBytes:
		return base.FormatBytes(int64(v))
	case v >= 1:
		return fmt.Sprintf("%.2f s", v)
	case v >= 1e-3:
		return fmt.Sprintf("%.2f ms", v*1e3)
	case v >= 1e-6:
		return fmt.Sprintf("%.2f µs", v*1e6)
	}
	return fmt.Sprintf("%.1f ns", v*1e9)
}

// nameWidth returns the length of the longest name of a row.
func nameWidth() int {
	longest := 0
	for _, name := range rowNames() {
		longest = max(longest, len(name))
	}
	return longest
}

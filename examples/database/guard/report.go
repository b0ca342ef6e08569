package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report prints the table, and a sentence about what the guards have saved.
func report(out io.Writer, c config, users int, l *load, results []*result) error {
	fmt.Fprintf(out, "%d users; %d requests: %d for existing users, %d for others, %d to sign up; a cache of %d answers\n\n",
		users, l.len(), l.present, l.absent, l.signUps, c.cache)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "way\tqueries\tin vain\texpected\tp50\tp99\trequests/s\tfilters\twrong\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%s\t%s\t%.0f\t%.2f MB\t%d\t\n", r.way, r.queries, r.vain, r.rate*float64(l.absent),
			micros(r.p50), micros(r.p99), float64(l.len())/r.took.Seconds(), float64(r.bytes)/1e6, r.wrong)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	alone, filter, store := find(results, "cache alone"), find(results, "cache and filter"), find(results, "cache and shale")
	_, err := fmt.Fprintf(out, "\nOf %d queries the filter saved %d (%.1f %%) and shale %d (%.1f %%), with no wrong answer: "+
		"of %d requests for users that do not exist, %d and %d reached the database.\n",
		alone.queries, alone.queries-filter.queries, saved(alone, filter), alone.queries-store.queries, saved(alone, store),
		l.absent, filter.vain, store.vain)
	return err
}

// saved returns how many per cent of the queries a guard has saved.
func saved(without, with *result) float64 {
	return 100 - 100*float64(with.queries)/float64(max(without.queries, 1))
}

// find returns the result of a way. Requires: the way was measured.
func find(results []*result, way string) *result {
	for _, r := range results {
		if r.way == way {
			return r
		}
	}
	panic(fmt.Sprintf("no result of %q", way)) // callers pass names from ways
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3) }

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// report prints the table, and then sentences that compare the ways.
func report(out io.Writer, c config, results []*result) error {
	first := results[0]
	fmt.Fprintf(out, "%d links, in %d spellings, to %d URLs of %s\n\n", first.URLs, first.Spellings, first.Distinct, megabytes(first.URLBytes))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "way\ttime a URL\tmemory\tat most\tdisk\ttaken for seen\ta kill leaves\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%.2f µs\t%s\t%s\t%s\t%d\t%s\t\n", r.Way, r.micros(),
			megabytes(r.Held), megabytes(r.Most), megabytes(r.Disk), r.Wrong, keeps(r.Way))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, sentence := range sentences(c, results) {
		fmt.Fprintln(out, sentence)
	}
	return nil
}

// fewest is the number of URLs from which memory and times are compared. Those of fewer are what an empty
// process takes, and noise.
const fewest = 5000

// sentences returns the comparisons of the ways that were measured.
func sentences(c config, results []*result) (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	first := results[0]
	if twice := first.Spellings - first.Distinct; twice > 0 {
		say("If each spelling counted as a URL of its own, a crawler would make %d fetches more.", twice)
	}
	set, bitmap, alone := find(results, "set of strings"), find(results, bitmapAlone), find(results, filterAlone)
	if bitmap != nil {
		say("The bitmap of one hash is %s and lost %d URLs, that is one in %s (predicted: %.0f).",
			megabytes(bitmap.FilterBytes), bitmap.Wrong, oneIn(bitmap), predictBitmapWrong(bitmap.Distinct, bitmap.FilterBytes))
	}
	table, with, without := find(results, "SQLite"), find(results, "shale"), find(results, "shale, no filters")
	if alone != nil {
		say("The filter alone is %s and lost %d URLs, that is one in %s (predicted: %.0f): they would never be crawled.",
			megabytes(alone.FilterBytes), alone.Wrong, oneIn(alone), predictWrong(alone.Distinct, alone.FilterBytes))
	}
	enough := first.Distinct >= fewest
	if alone != nil && set != nil && set.Held > 0 && enough {
		say("It saved %.1f %% of the memory of the set of strings.", 100-100*float64(alone.FilterBytes)/float64(set.Held))
	}
	if with != nil && with.Spared+with.LookedInto == 0 {
		say("shale lost none. All URLs are in its memtable, so there is no table to search. Take more URLs to see its filters at work.")
	} else if with != nil {
		say("shale lost none. Its filters, %s, saved %d of %d searches of tables. For %d of %d new URLs a table was searched in vain: %.2f %%.",
			megabytes(with.FilterBytes), with.Spared, with.Spared+with.LookedInto, with.InVain, with.Distinct, 100*float64(with.InVain)/float64(with.Distinct))
	}
	if with != nil && without != nil && without.LookedInto > 0 && enough {
		say("Without filters the same store searched tables %d times, and took %.2f times as long.", without.LookedInto, without.micros()/with.micros())
	}
	if with != nil && table != nil && enough {
		say("SQLite, with transactions of %d URLs, took %.1f times as long as shale, which writes each URL at once.", c.batch, table.micros()/with.micros())
	}
	if !enough && len(results) > 1 {
		say("Memory and times are not compared: those of %d URLs are mostly those of an empty process.", first.Distinct)
	}
	return said
}

// find returns the result of a way, or nil.
func find(results []*result, way string) *result {
	i := slices.IndexFunc(results, func(r *result) bool { return r.Way == way })
	if i < 0 {
		return nil
	}
	return results[i]
}

// keeps returns what is left of a way after a kill.
func keeps(way string) string {
	for _, w := range ways {
		if w.name == way {
			return w.keeps
		}
	}
	return ""
}

func (r *result) micros() float64 { return float64(r.Nanos) / 1e3 / float64(max(r.URLs, 1)) }

func oneIn(r *result) string {
	if r.Wrong == 0 {
		return fmt.Sprintf("more than %d", r.Distinct)
	}
	return fmt.Sprint(r.Distinct / r.Wrong)
}

// megabytes prints a number of bytes, in kB if it is small. The system's counts go up and down by some pages, so
// that something very small may seem to take less than nothing.
func megabytes(n int64) string {
	if n == unknown {
		return "?"
	}
	if n = max(n, 0); n < 1e6 {
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

package benchmark

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// printStore prints what was loaded, and the levels of the store.
func (r *summary) printStore(w io.Writer) {
	fmt.Fprintln(w, r.Dataset)
	fmt.Fprintf(w, "%d keys loaded in %.1f s; %d absent keys to ask for, all inside the key range (left out: %d outside it, %d that are loaded too)\n",
		r.Present, r.Store.Took.Seconds(), r.Absent, r.Outside, r.Both)
	fmt.Fprintf(w, "%.1f MB of keys and values in %.1f MB of tables; %s/%s, %d CPUs, %s\n\n",
		mega(r.Store.RawBytes), mega(r.TableSize), r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Machine.Go)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "level\truns\ttables\tMB\tfilters MB\tbits/key\tpredicted false positives\t")
	var filters int64
	var fpr float64
	for _, l := range r.Levels {
		fmt.Fprintf(t, "L%d\t%d\t%d\t%.2f\t%.3f\t%.1f\t%.4f %%\t\n", l.Level, l.Runs, l.Tables, mega(l.Bytes), mega(l.Filter), l.Bits, 100*l.FPR)
		filters += l.Filter
		fpr += l.FPR
	}
	fmt.Fprintf(t, "all\t%d\t%d\t%.2f\t%.3f\t%.1f\t%.4f %%\t\n", r.Runs, r.Tables, mega(r.TableSize), mega(filters), 8*float64(filters)/float64(r.Present), 100*fpr)
	t.Flush()
	fmt.Fprintln(w)
}

func mega(n int64) float64 { return float64(n) / 1e6 }

// printResults prints a row for each cell, and what follows from them.
func (r *summary) printResults(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\t\tpage\t\tlookups\tns per\tper lookup:\tread from\tpreads\tbytes\tbytes from\tfalse\t")
	fmt.Fprintln(t, "keys\tcache\tcache\tfilters\tper s\tlookup\tblocks\ta file\tby the OS\tread\tdevice\tpositives\t")
	for _, c := range r.Results {
		n := float64(c.Lookups)
		measured := "-"
		if c.Filters && c.Absent {
			measured = fmt.Sprintf("%.3f %%", 100*c.MeasuredFPR)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.4f\t%.4f\t%s\t%.0f\t%s\t%s\t\n",
			c.keys(), c.Cache, c.temperature(), c.filters(), c.LookupsPerSec, c.Nanos, c.BlocksPerLookup, c.ReadsPerLookup,
			perLookup(c.Preads, n, "%.4f"), c.BytesPerLookup, perLookup(c.DeviceBytes, n, "%.0f"), measured)
	}
	t.Flush()
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	if line := r.sentence(); line != "" {
		fmt.Fprintf(w, "\n%s\n", line)
	}
}

// perLookup formats a count of the operating system, which may not be known.
func perLookup(count int64, n float64, format string) string {
	if count < 0 {
		return "-"
	}
	return fmt.Sprintf(format, float64(count)/n)
}

// sentence returns the result in words, if the cells that it needs were measured.
func (r *summary) sentence() string {
	var without, with, skewed *result
	for _, c := range r.Results {
		switch {
		case c.Skewed:
			skewed = c
		case !c.Absent || c.Cache != "1/16" || c.Cold:
		case c.Filters:
			with = c
		default:
			without = c
		}
	}
	if with == nil || without == nil {
		return ""
	}
	s := fmt.Sprintf(`With a block cache of 1/16 of the data, the lookup of an absent key looks into %.2f blocks without
filters and %.4f with them; it reads %.4f and %.4f blocks from files. The filters take %.1f MB of
memory for %.1f MB of tables, %.1f bits a key. False positives a lookup: %.3f %% measured, %.3f %% predicted.`,
		without.BlocksPerLookup, with.BlocksPerLookup, without.ReadsPerLookup, with.ReadsPerLookup,
		mega(with.FilterMemory), mega(r.TableSize), 8*float64(with.FilterMemory)/float64(r.Present),
		100*with.MeasuredFPR, 100*with.PredictedFPR)
	if skewed != nil {
		s += fmt.Sprintf(`
When some absent keys are asked for much more often than others (Zipf, 1.1), %.0f %% of the false
positives are known from the first time and read nothing: %.4f blocks a lookup.`,
			100*skewed.Remembered, skewed.BlocksPerLookup)
	}
	return s
}

package benchmark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// A report is all that a run found out.
type report struct {
	Dataset   string    `json:"dataset"`
	Present   int       `json:"present_keys"`
	Absent    int       `json:"absent_keys"`
	Outside   int       `json:"absent_keys_outside_range"`
	Both      int       `json:"absent_keys_loaded_too"`
	Store     *loaded   `json:"load"`
	Runs      int       `json:"runs"`
	Tables    int       `json:"tables"`
	Levels    []Level   `json:"levels"`
	TableSize int64     `json:"table_bytes"`
	Machine   Machine   `json:"machine"`
	Results   []*result `json:"results"`
	Notes     []string  `json:"notes"`
}

// A Level describes a level that holds tables.
type Level struct {
	Level  int     `json:"level"`
	Runs   int     `json:"runs"`
	Tables int     `json:"tables"`
	Bytes  int64   `json:"bytes"`
	Filter int64   `json:"filter_bytes"`
	Bits   float64 `json:"filter_bits"`
	FPR    float64 `json:"predicted_fpr"` // of any lookup of an absent key
}

// A Machine is where the figures come from.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// ThisMachine describes the machine that runs the program.
func ThisMachine() Machine {
	return Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()}
}

func newReport(d *Dataset, l *loaded) *report {
	r := &report{
		Dataset: d.Name, Present: len(d.Present), Absent: len(d.Absent), Outside: d.Outside, Both: d.Both, Store: l,
		Machine: ThisMachine(),
	}
	r.Levels = LevelsOf(l.Shape)
	for _, m := range r.Levels {
		r.Runs += m.Runs
		r.Tables += m.Tables
		r.TableSize += m.Bytes
	}
	return r
}

// LevelsOf describes the levels that hold tables.
func LevelsOf(shape shale.Metrics) []Level {
	var all []Level
	for _, m := range shape.Levels {
		if m.Tables > 0 {
			all = append(all, Level{m.Level, m.Runs, m.Tables, m.Bytes, m.FilterBytes, m.FilterBits, m.KeyShare * m.PredictedFPR})
		}
	}
	return all
}

// cells lists the measurements in the order in which they are made.
func (r *report) cells() []cell {
	full := r.Store.RawBytes*2 + 32<<20
	small := max(r.Store.RawBytes/16, 256<<10)
	var cells []cell
	for _, cold := range []bool{false, true} {
		for _, size := range []int64{full, small} {
			for _, filters := range []bool{false, true} {
				cells = append(cells, cell{Absent: true, Filters: filters, Cold: cold, CacheSize: size})
			}
		}
	}
	for _, size := range []int64{full, small} {
		for _, filters := range []bool{false, true} {
			cells = append(cells, cell{Filters: filters, CacheSize: size})
		}
	}
	cells = append(cells, cell{Absent: true, Skewed: true, Filters: true, CacheSize: small})
	for i := range cells {
		cells[i].Cache = "1/16"
		if cells[i].CacheSize == full {
			cells[i].Cache = "all"
		}
	}
	return cells
}

func (r *report) measureAll(ctx context.Context, l *loaded, d *Dataset, limit time.Duration) error {
	present := make([][]byte, len(d.Present))
	for i := range d.Present {
		present[i] = d.Present[i].Key
	}
	absent, present := Shuffle(d.Absent), Shuffle(present)
	popular := Skewed(absent)
	cells := r.cells()
	bar := NewProgress("measuring", len(cells))
	defer bar.Done()
	cold := true
	for i, c := range cells {
		bar.At(i)
		if c.Cold && !cold {
			continue
		}
		keys := present
		switch {
		case c.Skewed:
			keys = popular
		case c.Absent:
			keys = absent
		}
		got, err := measure(ctx, l, c, keys, limit)
		if c.Cold && errors.Is(err, vfs.ErrUnsupported) {
			r.Notes = append(r.Notes, fmt.Sprintf("cold reads left out: %v", err))
			cold = false
			continue
		}
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		r.Results = append(r.Results, got)
	}
	return nil
}

// String names the cell in messages.
func (c cell) String() string {
	return fmt.Sprintf("%s keys, filters %s, cache %s, %s", c.keys(), c.filters(), c.Cache, c.temperature())
}

func (c cell) keys() string {
	if c.Skewed {
		return "absent, skewed"
	}
	if c.Absent {
		return "absent"
	}
	return "present"
}

func (c cell) filters() string {
	if c.Filters {
		return "on"
	}
	return "ignored"
}

func (c cell) temperature() string {
	if c.Cold {
		return "cold"
	}
	return "warm"
}

func (r *report) printHead(w io.Writer) {
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

func (r *report) print(w io.Writer) {
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

func perLookup(count int64, n float64, format string) string {
	if count < 0 {
		return "-"
	}
	return fmt.Sprintf(format, float64(count)/n)
}

// sentence is what a reader takes home.
func (r *report) sentence() string {
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

func (r *report) writeJSON(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return outfile.ReplaceBytes(path, append(data, '\n'))
}

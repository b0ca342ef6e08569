package benchmark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/vfs"
)

// A summary is all that a run found out, in the form that -json writes.
type summary struct {
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
	FPR    float64 `json:"predicted_fpr"` // false positives of this level in a lookup of an absent key
}

// A Machine is where something was measured.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine() Machine {
	return Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()}
}

// newSummary describes the data and the store, without results.
func newSummary(d *Dataset, l *loaded) *summary {
	r := &summary{
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

// measureAll measures every cell for limit at most. Where files can't be dropped from
// the page cache, a note takes the place of the cold cells.
func (r *summary) measureAll(ctx context.Context, l *loaded, d *Dataset, limit time.Duration) error {
	present := make([][]byte, len(d.Present))
	for i := range d.Present {
		present[i] = d.Present[i].Key
	}
	absent, present := Shuffle(d.Absent), Shuffle(present)
	popular := Skewed(absent)
	cells := cellsFor(l.RawBytes)
	bar := NewProgress("measuring", len(cells))
	defer bar.Done()
	canDrop := true
	for i, c := range cells {
		bar.At(i)
		if c.Cold && !canDrop {
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
			canDrop = false
			continue
		}
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		r.Results = append(r.Results, got)
	}
	return nil
}

func (r *summary) writeJSON(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return outfile.ReplaceBytes(path, append(data, '\n'))
}

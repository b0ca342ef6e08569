package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/internal/outfile"
)

// results has all that a report is drawn from. results.json keeps it.
type results struct {
	Version  int               `json:"version"`
	Dataset  string            `json:"dataset"`
	Present  int               `json:"present_keys"`
	Absent   int               `json:"absent_keys"`
	Outside  int               `json:"absent_keys_outside_range"`
	Both     int               `json:"absent_keys_loaded_too"`
	RawBytes int64             `json:"raw_bytes"`
	Machine  benchmark.Machine `json:"machine"`
	Short    bool              `json:"short"`
	Notes    []string          `json:"notes"`
	Cells    []*cell           `json:"-"` // write gives each a line
}

// resultsVersion changes when a field of cell gets another meaning.
const resultsVersion = 1

// A cell is one measurement for one figure. A count that is not known is -1.
type cell struct {
	Figure string  `json:"figure"`
	X      float64 `json:"x"`              // the value of what the figure varies
	Hits   float64 `json:"hits,omitempty"` // share of the lookups that find their key
	Name   string  `json:"name,omitempty"` // of a control experiment

	Filters   bool  `json:"filters"`
	Cold      bool  `json:"cold"`
	CacheSize int64 `json:"cache_size"` // negative: no block cache

	Keys        int               `json:"keys"`
	TableBytes  int64             `json:"table_bytes"`
	Runs        int               `json:"runs"`
	Levels      []benchmark.Level `json:"levels,omitempty"`
	FilterBytes int64             `json:"filter_bytes"`

	Lookups       int             `json:"lookups"`
	Seconds       float64         `json:"seconds"`
	PassNanos     []float64       `json:"pass_ns,omitempty"` // of a lookup, for each pass
	Blocks        float64         `json:"blocks"`            // looked into, cached or not; this and the next fields are per lookup
	BlockReads    float64         `json:"block_reads"`
	BytesRead     float64         `json:"bytes_read"`
	Preads        float64         `json:"preads"`
	DeviceBytes   float64         `json:"device_bytes"`
	MeasuredFPR   float64         `json:"measured_fpr"`
	PredictedFPR  float64         `json:"predicted_fpr"`
	LevelFPR      []float64       `json:"level_fpr,omitempty"` // measured, for each of Levels
	Quantiles     []quantilePoint `json:"quantiles,omitempty"` // of the time of a lookup, in ns
	ClockNanos    float64         `json:"clock_ns,omitempty"`  // what reading the clock adds to each lookup
	WriteSeconds  []float64       `json:"write_seconds,omitempty"`
	BuildNanos    float64         `json:"build_ns,omitempty"` // the time to make a filter, for each key
	CompactionDue int64           `json:"compaction_debt"`
}

// A quantilePoint is a share of the lookups, and the time that these take at most.
type quantilePoint [2]float64

// cell returns a cell for s without measurements.
func (s *store) cell(w way, filters bool) *cell {
	return &cell{
		Filters: filters, Cold: w.cold, CacheSize: w.cache,
		Keys: s.keys, TableBytes: s.bytes, Runs: s.runs, Levels: s.levels,
	}
}

// add adds the counts of a pass: the cell has means over all lookups. repeats says that
// nothing is cached, so that every pass must count the same.
func (c *cell) add(r benchmark.Counts, m shale.Metrics, repeats bool) error {
	n := float64(r.Lookups)
	if repeats && r.Lookups == c.Lookups && r.BlocksPerLookup != c.Blocks {
		return fmt.Errorf("the same %d lookups looked into %v blocks each, and then into %v", r.Lookups, c.Blocks, r.BlocksPerLookup)
	}
	old := float64(c.Lookups)
	mean := func(to *float64, value float64) { *to = (*to*old + value*n) / max(old+n, 1) }
	mean(&c.Blocks, r.BlocksPerLookup)
	mean(&c.BlockReads, r.ReadsPerLookup)
	mean(&c.BytesRead, r.BytesPerLookup)
	mean(&c.MeasuredFPR, r.MeasuredFPR)
	if r.Preads < 0 || c.Preads < 0 {
		c.Preads, c.DeviceBytes = -1, -1
	} else {
		mean(&c.Preads, float64(r.Preads)/n)
		mean(&c.DeviceBytes, float64(r.DeviceBytes)/n)
	}
	c.Lookups += r.Lookups
	c.Seconds += r.Seconds
	c.PassNanos = append(c.PassNanos, math.Round(r.Nanos*10)/10)
	c.PredictedFPR, c.FilterBytes, c.CompactionDue = r.PredictedFPR, r.FilterMemory, m.CompactionDebt
	if c.Filters {
		c.LevelFPR = nil
		for _, l := range m.Levels {
			if l.Tables > 0 {
				c.LevelFPR = append(c.LevelFPR, l.MeasuredFPR)
			}
		}
	}
	return nil
}

// nanos returns the mean time of a lookup, over all passes.
func (c *cell) nanos() float64 { return c.Seconds * 1e9 / float64(max(c.Lookups, 1)) }

// of returns the cells of a figure that are wanted; want nil means all.
func (r *results) of(figure string, want func(c *cell) bool) []*cell {
	var all []*cell
	for _, c := range r.Cells {
		if c.Figure == figure && (want == nil || want(c)) {
			all = append(all, c)
		}
	}
	return all
}

// write replaces the file. Each cell is a line.
func (r *results) write(path string) error {
	if r.Notes == nil {
		r.Notes = []string{}
	}
	head, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b := bytes.TrimSuffix(head, []byte("\n}"))
	b = append(b, ",\n  \"cells\": [\n"...)
	for i, c := range r.Cells {
		line, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Figure, err)
		}
		b = append(append(b, "    "...), line...)
		if i < len(r.Cells)-1 {
			b = append(b, ',')
		}
		b = append(b, '\n')
	}
	b = append(b, "  ]\n}\n"...)
	return outfile.ReplaceBytes(path, b)
}

// readResults reads what write wrote.
func readResults(path string) (*results, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r struct {
		results
		Cells []*cell `json:"cells"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version != resultsVersion {
		return nil, fmt.Errorf("%s: its version is %d, and this program reads %d: measure again", path, r.Version, resultsVersion)
	}
	for i, c := range r.Cells {
		if c == nil || len(c.LevelFPR) > len(c.Levels) || c.Figure == "F6" && len(c.WriteSeconds) == 0 {
			return nil, fmt.Errorf("%s: cell %d lacks a part", path, i+1)
		}
	}
	r.results.Cells = r.Cells
	return &r.results, nil
}

package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/svg"
)

func drawLatency(r *results) drawn {
	cells := r.of("F3", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	var all []chart.Series
	for _, c := range cells {
		s := look(c.Filters)
		s.NoMarks = true
		if s.Name += ", files in the page cache"; c.Cold {
			s.Dashed, s.Name = true, look(c.Filters).Name+", files cold"
		}
		for _, q := range c.Quantiles {
			s.Points = append(s.Points, chart.Point{X: q[1], Y: q[0]})
		}
		all = append(all, s)
	}
	last := cells[max(len(cells)-2, 0):] // cold, if there is that
	off, on := pair(last)
	state := "warm"
	if off.Cold {
		state = "cold"
	}
	var ticks []chart.Tick
	for i := range 5 {
		ticks = append(ticks, chart.Tick{At: float64(i) / 4, Text: fmt.Sprintf("%d %%", 25*i)})
	}
	return drawn{
		Name: "F3", file: "f3-latency",
		fig: &chart.Figure{
			Title: fmt.Sprintf("The median miss with %s files takes %s without filters, %s with them", state, svg.Duration(quantile(off, 0.5)), svg.Duration(quantile(on, 0.5))),
			Note:  fmt.Sprintf("%s; %s keys in %d levels, no block cache; reading the clock takes %s of each", r.Dataset, svg.Short(float64(r.Present)), len(off.Levels), svg.Duration(off.ClockNanos)),
			Panels: []chart.Panel{{
				X:      chart.Axis{Label: "time of one lookup of an absent key", Log: true, Format: svg.Duration},
				Y:      chart.Axis{Label: "lookups that take no longer", Min: -0.02, Max: 1.02, Ticks: ticks},
				Series: all,
			}},
			Height: 360,
		},
		Text:  "Every lookup timed by itself. With filters nearly all misses are answered from memory, whether the files are warm or cold; the last percent are the false positives, which read a block.",
		Table: latencyTable(cells),
	}
}

func quantile(c *cell, p float64) float64 {
	i := slices.IndexFunc(c.Quantiles, func(q quantilePoint) bool { return q[0] >= p })
	if i < 0 {
		return 0
	}
	return c.Quantiles[i][1]
}

func latencyTable(cells []*cell) [][]string {
	cols := []column{colCold, colFilters, colLookups, colReads}
	for _, p := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
		cols = append(cols, column{fmt.Sprintf("%v %%, ns", 100*p), func(c *cell) float64 { return quantile(c, p) }, "%.0f"})
	}
	return table(cells, append(cols, colNanos)...)
}

func drawThroughput(r *results) drawn {
	cells := r.of("F4", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	names := map[float64]string{0: "none", 1. / 16: "1/16", 1. / 8: "1/8", 1. / 4: "1/4", 1. / 2: "1/2", 1: "all"}
	places := map[float64]float64{}
	x := chart.Axis{Label: "block cache, of the data", Min: -0.4}
	var hits []float64
	y := chart.Axis{Label: "lookups a second", Log: true, Min: math.Inf(1)}
	for _, c := range cells {
		if _, ok := places[c.X]; !ok {
			at := float64(len(places))
			places[c.X] = at
			x.Ticks, x.Max = append(x.Ticks, chart.Tick{At: at, Text: names[c.X]}), at+0.4
		}
		if !slices.Contains(hits, c.Hits) {
			hits = append(hits, c.Hits)
		}
		y.Min, y.Max = min(y.Min, 0.8*1e9/c.nanos()), max(y.Max, 1.25*1e9/c.nanos())
	}
	var panels []chart.Panel
	for _, h := range hits {
		these := r.of("F4", func(c *cell) bool { return c.Hits == h })
		panels = append(panels, chart.Panel{
			Title: fmt.Sprintf("%.0f %% of the keys are present", 100*h), X: x, Y: y,
			Series: bothWays(these, func(c *cell) float64 { return places[c.X] }, func(c *cell) float64 { return 1e9 / c.nanos() }),
		})
	}
	least := cells[0] // the case of the title: the fewest hits, and some cache
	for _, c := range cells {
		if c.X == 1./16 && c.Hits <= least.Hits {
			least = c
		}
	}
	off, on := pair(r.of("F4", func(c *cell) bool { return c.Hits == least.Hits && c.X == least.X }))
	return drawn{
		Name: "F4", file: "f4-throughput",
		fig: &chart.Figure{
			Title:  fmt.Sprintf("Block cache %s of the data, %.0f %% of the keys absent: %.3g times the lookups a second", names[least.X], 100*(1-least.Hits), off.nanos()/on.nanos()),
			Note:   fmt.Sprintf("%s; %s keys in %d levels, files in the page cache, one goroutine", r.Dataset, svg.Short(float64(r.Present)), len(off.Levels)),
			Panels: panels, Columns: 3, Width: 960, Height: 250,
		},
		Text: "Keys drawn evenly, absent and present ones in random order. Where every key is present, filters save the reads of the runs that do not hold it. " +
			"The share of the cache is of what all blocks take in it.",
		Table: table(cells, column{"cache", theX, "%.4g"}, column{"present", func(c *cell) float64 { return c.Hits }, "%.2g"}, colFilters, colLookups,
			column{"lookups/s", func(c *cell) float64 { return 1e9 / c.nanos() }, "%.0f"}, colNanos, colBlocks, colReads, colBytes),
	}
}

func drawPrice(r *results) drawn {
	cells := r.of("F6", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	x := counted("filter bits a key", cells)
	writes := func(c *cell) float64 {
		least := slices.Min(c.WriteSeconds)
		return float64(c.Keys) / least
	}
	share := func(c *cell) float64 { return 100 * float64(c.FilterBytes) / float64(c.TableBytes) }
	one := func(y func(c *cell) float64, want func(*cell) bool) []chart.Series {
		s := chart.Series{Color: chart.Blue}
		for _, c := range r.of("F6", want) {
			s.Points = append(s.Points, chart.Point{X: c.X, Y: y(c)})
		}
		return []chart.Series{s}
	}
	ten, most, dearest := cells[0], 0.0, 0.0
	for _, c := range cells {
		most, dearest = max(most, writes(c)), max(dearest, c.BuildNanos)
		if c.X == 10 {
			ten = c
		}
	}
	return drawn{
		Name: "F6", file: "f6-price",
		fig: &chart.Figure{
			Title: fmt.Sprintf("The price of %.0f bits a key: %.1f %% of the tables' size in memory, %.0f ns a key to build", ten.X, share(ten), ten.BuildNanos),
			Note:  fmt.Sprintf("%s; %s keys written in random order and merged into one level", r.Dataset, svg.Short(float64(ten.Keys))),
			Panels: []chart.Panel{
				{Title: "memory", X: x, Y: chart.Axis{Label: "% of the tables", Max: 1.15 * share(cells[len(cells)-1])}, Series: labelled(one(share, nil))},
				{Title: "building", X: x, Y: chart.Axis{Label: "ns a key", Max: 1.25 * dearest}, Series: one(func(c *cell) float64 { return c.BuildNanos }, func(c *cell) bool { return c.X > 0 })},
				{Title: "writing", X: x, Y: chart.Axis{Label: "keys a second", Max: 1.25 * most}, Series: one(writes, nil)},
			},
			Width: 960, Height: 270,
		},
		Text: "Building is hashing the keys and making one filter of them all. Writing is everything from the first Put to the end of a compaction of all, " +
			"with memtables of 4 MiB and logs that are not synced; the best of four runs, two with growing bits and two with shrinking ones.",
		Table: table(cells, column{"bits a key", theX, "%.0f"}, column{"keys", func(c *cell) float64 { return float64(c.Keys) }, "%.0f"},
			column{"filters, bytes", func(c *cell) float64 { return float64(c.FilterBytes) }, "%.0f"},
			column{"% of the tables", share, "%.2f"}, column{"build, ns a key", func(c *cell) float64 { return c.BuildNanos }, "%.1f"},
			column{"write, best, s", func(c *cell) float64 { return slices.Min(c.WriteSeconds) }, "%.3f"},
			column{"worst, s", func(c *cell) float64 { return slices.Max(c.WriteSeconds) }, "%.3f"}, column{"keys/s", writes, "%.0f"}),
	}
}

func drawValues(r *results) drawn {
	cells := r.of("F7", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	places := map[float64]float64{}
	x := chart.Axis{Label: "bytes of a value", Min: -0.4}
	for _, c := range cells {
		if _, ok := places[c.X]; !ok {
			places[c.X] = float64(len(places))
			x.Ticks, x.Max = append(x.Ticks, chart.Tick{At: places[c.X], Text: fmt.Sprintf("%.0f", c.X)}), places[c.X]+0.4
		}
	}
	place := func(c *cell) float64 { return places[c.X] }
	w, k := r.of("F7", warm), r.of("F7", cold)
	off, on := pair(w)
	panels := []chart.Panel{
		{Title: "bytes read", X: x, Y: chart.Axis{Label: "a miss", Log: true}, Series: labelled(bothWays(w, place, func(c *cell) float64 { return c.BytesRead }))},
		{Title: "time, files in the page cache", X: x, Y: chart.Axis{Label: "a miss", Log: true, Format: svg.Duration}, Series: bothWays(w, place, (*cell).nanos)},
	}
	if len(k) > 0 {
		panels = append(panels, chart.Panel{Title: "time, files cold", X: x, Y: chart.Axis{Label: "a miss", Log: true, Format: svg.Duration}, Series: bothWays(k, place, (*cell).nanos)})
	}
	return drawn{
		Name: "F7", file: "f7-values",
		fig: &chart.Figure{
			Title:  fmt.Sprintf("The larger the values, the more a miss would read: %s bytes at %.0f each, %s with filters", svg.Short(off.BytesRead), off.X, svg.Short(on.BytesRead)),
			Note:   fmt.Sprintf("%s; 1000 keys and more, values that can't be compressed, %d levels, no block cache", r.Dataset, len(off.Levels)),
			Panels: panels, Width: 960, Height: 290,
		},
		Text:  "A block holds at least one whole value. There are as many keys as fit into 64 MB, at most 100,000. The size of a filter does not depend on values. A thousand keys get more bits each than asked for, because a filter has a least size.",
		Table: table(cells, column{"value, bytes", theX, "%.0f"}, column{"keys", func(c *cell) float64 { return float64(c.Keys) }, "%.0f"}, colCold, colFilters, colLookups, colReads, colBytes, colDevice, colNanos),
	}
}

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/svg"
)

const ignoredName, onName = "filters ignored", "filters on"

// look returns a series without points, which looks the same in every figure.
func look(filters bool) chart.Series {
	if filters {
		return chart.Series{Name: onName, Color: chart.Blue, Below: true}
	}
	return chart.Series{Name: ignoredName, Color: chart.Orange}
}

// bothWays draws cells as two series, by x and y.
func bothWays(cells []*cell, x, y func(c *cell) float64) []chart.Series {
	var all []chart.Series
	for _, filters := range []bool{false, true} {
		s := look(filters)
		for _, c := range cells {
			if c.Filters == filters {
				s.Points = append(s.Points, chart.Point{X: x(c), Y: y(c)})
			}
		}
		slices.SortFunc(s.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// labelled writes the values next to the points, small ones with two digits.
func labelled(all []chart.Series) []chart.Series {
	for i := range all {
		all[i].Labels = true
		for j, p := range all[i].Points {
			if p.Y > 0 && p.Y < 0.1 {
				all[i].Points[j].Text = strconv.FormatFloat(p.Y, 'g', 2, 64)
			}
		}
	}
	return all
}

func theX(c *cell) float64 { return c.X }

func warm(c *cell) bool { return !c.Cold }
func cold(c *cell) bool { return c.Cold }

// counted returns an axis with a tick at each x of the cells, which are whole numbers.
func counted(label string, cells []*cell) chart.Axis {
	a := chart.Axis{Label: label, Min: math.Inf(1), Max: math.Inf(-1)}
	for _, c := range cells {
		a.Min, a.Max = min(a.Min, c.X), max(a.Max, c.X)
		tick := chart.Tick{At: c.X, Text: strconv.Itoa(int(c.X))}
		if !slices.Contains(a.Ticks, tick) {
			a.Ticks = append(a.Ticks, tick)
		}
	}
	pad := max((a.Max-a.Min)*0.08, 0.5)
	a.Min, a.Max = a.Min-pad, a.Max+pad
	return a
}

// pair returns the last cell without filters and the last with them.
func pair(cells []*cell) (off, on *cell) {
	off, on = &cell{}, &cell{}
	for _, c := range cells {
		if c.Filters {
			on = c
		} else {
			off = c
		}
	}
	return off, on
}

func drawLevels(r *results) drawn {
	cells := r.of("F1", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	w, c := r.of("F1", warm), r.of("F1", cold)
	off, on := pair(w)
	x := counted("levels", cells)
	log := func(label string) chart.Axis { return chart.Axis{Label: label, Log: true} }
	reads := func(c *cell) float64 { return c.BlockReads }
	bytes := func(c *cell) float64 { return c.BytesRead }
	device := func(c *cell) float64 { return c.DeviceBytes }
	panels := []chart.Panel{
		{Title: "reads of a file (pread)", X: x, Y: log("a miss"), Series: labelled(bothWays(w, theX, reads))},
		{Title: "bytes read", X: x, Y: log("bytes a miss"), Series: labelled(bothWays(w, theX, bytes))},
	}
	for _, s := range bothWays(c, theX, reads) {
		s.Name, s.Hollow, s.NoLine = s.Name+", files not in the page cache", true, true
		panels[0].Series = append(panels[0].Series, s)
	}
	if len(c) > 0 && c[0].DeviceBytes >= 0 {
		panels = append(panels, chart.Panel{Title: "bytes from the device, cold", X: x, Y: log("bytes a miss"), Series: labelled(bothWays(c, theX, device))})
	}
	return drawn{
		Name: "F1", file: "f1-savings",
		fig: &chart.Figure{
			Title:  fmt.Sprintf("An absent key in %d levels: %.3g reads without filters, %.2g with them", int(off.X), off.BlockReads, on.BlockReads),
			Note:   fmt.Sprintf("%s; %s keys, 10 bits a key, no block cache", r.Dataset, svg.Short(float64(r.Present))),
			Panels: panels, Width: 960, Height: 290,
		},
		Text: "The same keys in trees of different depth, a sorted run on each level. Every absent key lies inside the key range. " +
			"There is no block cache, so that each block that a lookup looks into is one read of a file; the operating system counted the same. " +
			"Cold means that the files were dropped from the page cache before every few lookups, which was checked; the counts do not change, but then the device is asked. " +
			"It is asked less than once a read, as the upper levels are so small that few lookups bring all of them back into the page cache.",
		Table: table(cells, column{"levels", theX, "%.0f"}, colCold, colFilters, colLookups, colReads, colPreads, colBytes, colDevice, colNanos),
	}
}

// standardFPR returns the textbook's rate of a Bloom filter: (1-e^(-k/bits))^k, with the
// best whole k.
func standardFPR(bits float64) float64 {
	best := 1.0
	for k := 1.0; k <= 30; k++ {
		best = min(best, math.Pow(1-math.Exp(-k/bits), k))
	}
	return best
}

func drawBits(r *results) drawn {
	cells := r.of("F2", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	total := chart.Series{Name: "measured, all levels together", Color: chart.Blue}
	predicted := chart.Series{Name: "predicted by the store", Color: chart.Blue, Dashed: true, NoMarks: true}
	each := chart.Series{Name: "measured, one level with bits of its own", Color: chart.Green, NoLine: true, Hollow: true}
	for _, c := range cells {
		total.Points = append(total.Points, chart.Point{X: c.X, Y: c.BlockReads, Text: svg.Short(c.BlockReads)})
		if c.PredictedFPR > 0 && c.Filters {
			predicted.Points = append(predicted.Points, chart.Point{X: c.X, Y: c.PredictedFPR})
		}
		for i, rate := range c.LevelFPR {
			if l := c.Levels[i]; l.Bits > 0 && l.Bits <= 24.5 && rate*float64(c.Lookups) >= 5 {
				each.Points = append(each.Points, chart.Point{X: l.Bits, Y: rate, Text: fmt.Sprintf("%s %% in L%d, %.1f bits", svg.Short(100*rate), l.Level, l.Bits)})
			}
		}
	}
	total.Labels = true
	theory := chart.Series{Name: "theory of one Bloom filter", Color: chart.Grey, NoMarks: true}
	blocked := chart.Series{Name: "theory of one filter in cache lines, as shale's", Color: chart.Purple, Dashed: true, NoMarks: true}
	for bits := 2.0; bits <= 24; bits += 0.5 {
		theory.Points = append(theory.Points, chart.Point{X: bits, Y: standardFPR(bits)})
		if bits >= 4 {
			blocked.Points = append(blocked.Points, chart.Point{X: bits, Y: bloom.PredictFPR(bits)})
		}
	}
	percent := func(v float64) string { return svg.Short(100*v) + " %" }
	ten := cells[0]
	for _, c := range cells {
		if c.X == 10 {
			ten = c
		}
	}
	return drawn{
		Name: "F2", file: "f2-curve",
		fig: &chart.Figure{
			Title: fmt.Sprintf("%.0f bits a key: %.2f %% of absent keys cost a block read; %.2f %% were predicted", ten.X, 100*ten.MeasuredFPR, 100*ten.PredictedFPR),
			Note:  fmt.Sprintf("%s; %s keys in %d levels, no block cache", r.Dataset, svg.Short(float64(r.Present)), len(ten.Levels)),
			Panels: []chart.Panel{{
				X:      chart.Axis{Label: "filter bits a key: of the store on average, of a level its own", Min: -0.8, Max: 24.8, Ticks: ticksOf(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24)},
				Y:      chart.Axis{Label: "false positives a miss", Log: true, Min: 5e-6, Max: 12, Format: percent, Ticks: percentTicks()},
				Right:  &chart.Axis{Label: "block reads a miss", Log: true, Min: 5e-6, Max: 12},
				Series: []chart.Series{theory, blocked, predicted, each, total},
			}},
			Height: 400,
		},
		Text: "A new store for each number of bits; each absent key is looked up once. Both axes are the same scale, as a false positive is one block read; " +
			"without filters every level is read. The store gives the small levels more bits than the large one, so that all together err little more than " +
			"one filter would with the same memory. 2 bits a key are below the least that a filter of shale takes (4): the largest level goes without.",
		Table: table(cells, column{"bits a key", theX, "%.0f"}, colLookups, colReads, colFPR, colPredicted,
			column{"filters, MB", func(c *cell) float64 { return float64(c.FilterBytes) / 1e6 }, "%.2f"}, colRuns),
	}
}

func ticksOf(values ...float64) (ticks []chart.Tick) {
	for _, v := range values {
		ticks = append(ticks, chart.Tick{At: v, Text: svg.Short(v)})
	}
	return ticks
}

func percentTicks() (ticks []chart.Tick) {
	for _, v := range []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1} {
		ticks = append(ticks, chart.Tick{At: v, Text: svg.Short(100*v) + " %"})
	}
	return ticks
}

func drawRuns(r *results) drawn {
	cells := r.of("F5", nil)
	if len(cells) == 0 {
		return drawn{}
	}
	off, on := pair(cells)
	x := counted("runs", cells)
	reads := labelled(bothWays(cells, theX, func(c *cell) float64 { return c.BlockReads }))
	reads[len(reads)-1].Labels = false // its counts are small and vary
	return drawn{
		Name: "F5", file: "f5-runs",
		fig: &chart.Figure{
			Title: fmt.Sprintf("A miss in %d runs reads %.3g blocks without filters, %.2g with them", int(off.X), off.BlockReads, on.BlockReads),
			Note:  fmt.Sprintf("%s; %s keys in level 0, no block cache", r.Dataset, svg.Short(float64(off.Keys))),
			Panels: []chart.Panel{
				{Title: "block reads", X: x, Y: chart.Axis{Label: "a miss", Log: true}, Series: reads},
				{Title: "time, files in the page cache", X: x, Y: chart.Axis{Label: "a miss", Log: true, Format: svg.Duration}, Series: bothWays(cells, theX, (*cell).nanos)},
			},
		},
		Text:  "The same keys, flushed in parts that are never merged. Runs of level 0 get 24 bits a key, so they add few false positives.",
		Table: table(cells, column{"runs", theX, "%.0f"}, colFilters, colLookups, colReads, colPreads, colBytes, colFPR, colNanos),
	}
}

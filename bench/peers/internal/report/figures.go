package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/shaledb/shale/bench/peers/internal/results"
	"github.com/shaledb/shale/internal/chart"
	"github.com/shaledb/shale/internal/svg"
)

const (
	pageWidth  = 960
	barHeight  = 11
	barGap     = 12  // between workloads
	mostPoints = 150 // of a line
)

// Figures are the drawings of the page.
func (p *page) Figures() (drawn []template.HTML) {
	for _, f := range append(p.ratios(), p.overTime(), p.latencies()) {
		if len(f.Panels) > 0 {
			drawn = append(drawn, template.HTML(f.SVG())) // which has escaped every text
		}
	}
	return drawn
}

// ratios compare the throughput of the first store with that of the others, writes apart
// from reads and from mixed workloads.
func (p *page) ratios() []*chart.Figure {
	var writes, reads, mixed []string
	for _, w := range p.sum.Workloads {
		switch {
		case strings.HasPrefix(w, "fill") || w == "overwrite" || w == "deleterandom":
			writes = append(writes, w)
		case strings.HasPrefix(w, "ycsb") || strings.HasPrefix(w, "readwhilewriting"):
			mixed = append(mixed, w)
		default:
			reads = append(reads, w)
		}
	}
	return []*chart.Figure{p.bars("Writes", writes), p.bars("Reads", reads), p.bars("Reads and writes", mixed)}
}

// bars draws for each workload how many times faster the first store is than each of the
// others.
func (p *page) bars(title string, workloads []string) *chart.Figure {
	f := &chart.Figure{
		Title: title + ": how many times faster " + p.sum.Base() + " is", Note: "Throughput of " + p.sum.Base() +
			" over that of each other store: to the right of 1, " + p.sum.Base() + " is ahead. The axis is logarithmic.",
		Width: pageWidth, Left: 190,
	}
	panel := chart.Panel{Bars: true, X: chart.Axis{Log: true, Min: 0.5, Max: 2, Format: func(v float64) string { return svg.Short(v) + "×" }}}
	series := make([]chart.Series, len(p.Stores))
	y := 0.0 // from the top downwards
	for _, w := range workloads {
		begin := y
		for i, s := range p.Stores {
			ratio, ok := p.sum.Ratio(w, s.Name)
			if !ok || i == 0 {
				continue
			}
			its := p.sum.Cell(w, s.Name)
			text := svg.Short(ratio)
			if its.Cut() {
				text += " *"
			}
			y += barHeight
			series[i].Name, series[i].Color, series[i].NoLine = s.Name, s.Color, true
			series[i].Points = append(series[i].Points, chart.Point{X: ratio, Y: barHeight/2.0 - y, Text: text, Tip: fmt.Sprintf("%s: %s %s ops/s, %s %s ops/s", w, p.sum.Base(),
				svg.Short(p.sum.Cell(w, p.sum.Base()).Median(results.Rate)), s.Name, svg.Short(its.Median(results.Rate)))})
			panel.X.Min, panel.X.Max = min(panel.X.Min, 0.8*ratio), max(panel.X.Max, 1.25*ratio)
		}
		if y > begin {
			panel.Y.Ticks = append(panel.Y.Ticks, chart.Tick{At: -(begin + y) / 2, Text: w})
			y += barGap
		}
	}
	if y > 0 {
		panel.Y.Min, panel.Series = -y, series
		f.Panels, f.Height = []chart.Panel{panel}, chart.PanelHeight(y)
	}
	return f
}

// overTime draws how many operations each store finished a second while it was filled, in
// the round with the median throughput.
func (p *page) overTime() *chart.Figure {
	return p.lines("Throughput over time", "Operations a second while a store is filled, in the round with the median throughput.",
		chart.Panel{X: chart.Axis{Label: "seconds"}},
		func(c *results.Cell, panel *chart.Panel) (s chart.Series) {
			w := c.Typical().Write
			if w == nil {
				return s
			}
			s.NoMarks, s.Points = true, rates(w)
			for _, q := range s.Points {
				panel.Y.Max = max(panel.Y.Max, 1.05*q.Y)
			}
			return s
		}, "fillseq", "fillrandom", "fillbatch", "overwrite")
}

// latencies draws the quantiles of single operations.
func (p *page) latencies() *chart.Figure {
	form := chart.Panel{X: chart.Axis{Min: -0.3, Max: float64(len(quantiles)) - 0.7}, Y: chart.Axis{Log: true, Format: micros}}
	for i, q := range quantiles {
		form.X.Ticks = append(form.X.Ticks, chart.Tick{At: float64(i), Text: q.name})
	}
	return p.lines("Latency", "Quantiles of single operations, background work and collections included. The axes are logarithmic.", form,
		func(c *results.Cell, _ *chart.Panel) (s chart.Series) {
			for i, q := range quantiles {
				v := c.Median(q.figure)
				s.Points = append(s.Points, chart.Point{X: float64(i), Y: v, Tip: q.name + ": " + micros(v)})
			}
			return s
		}, "fillrandom", "fillsync", "fillsync16", "readmissing", "readrandom", "readmissing-small", "readmissing-levels",
		"seekrandom", "readwhilewriting", "ycsb-a", "ycsb-b", "ycsb-e")
}

// lines draws a panel of a form for each workload, and a line for each store.
func (p *page) lines(title, note string, form chart.Panel, line func(*results.Cell, *chart.Panel) chart.Series, workloads ...string) *chart.Figure {
	f := &chart.Figure{Title: title, Note: note, Columns: 2, Width: pageWidth, Height: 280}
	for _, w := range workloads {
		if !slices.Contains(p.sum.Workloads, w) {
			continue
		}
		panel := form
		panel.Title = w
		for _, store := range p.Stores {
			if cell := p.sum.Cell(w, store.Name); cell != nil {
				if s := line(cell, &panel); len(s.Points) > 0 {
					s.Name, s.Color = store.Name, store.Color
					panel.Series = append(panel.Series, s)
				}
			}
		}
		if len(panel.Series) > 0 {
			f.Panels = append(f.Panels, panel)
		}
	}
	return f
}

// rates are operations a second over seconds, without the last interval, which
// is not whole. Of a long series neighbours are joined.
func rates(w *results.Write) []chart.Point {
	series := w.Series[:max(0, len(w.Series)-1)]
	width := (len(series) + mostPoints - 1) / mostPoints
	var line []chart.Point
	for i := 0; width > 0 && i+width <= len(series); i += width {
		sum := int64(0)
		for _, n := range series[i : i+width] {
			sum += n
		}
		seconds := float64(width*w.SeriesMillis) / 1e3
		line = append(line, chart.Point{X: (float64(i) + float64(width)/2) * float64(w.SeriesMillis) / 1e3, Y: float64(sum) / seconds})
	}
	return line
}

var quantiles = []struct {
	name   string
	figure func(*results.Run) float64
}{
	{"p50", func(r *results.Run) float64 { return r.Latency.P50 }},
	{"p90", func(r *results.Run) float64 { return r.Latency.P90 }},
	{"p99", func(r *results.Run) float64 { return r.Latency.P99 }},
	{"p99.9", func(r *results.Run) float64 { return r.Latency.P999 }},
	{"p99.99", func(r *results.Run) float64 { return r.Latency.P9999 }},
	{"max", func(r *results.Run) float64 { return r.Latency.Max }},
}

package report

import (
	"html/template"
	"math"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

// Sizes of a small chart, of which two stand side by side.
const (
	chartWidth  = 470
	chartHeight = 260
	chartLeft   = 52
	chartRight  = 12
	chartTop    = 12
	chartBottom = 34
	mostPoints  = 150 // of a line
)

// A chart is drawn with axes and a grid.
type chart struct {
	*svg
	x, y scale
}

func newChart(title string) *chart {
	return &chart{
		svg: newSVG(chartWidth, chartHeight, title),
		x:   scale{from: chartLeft, to: chartWidth - chartRight},
		y:   scale{from: chartHeight - chartBottom, to: chartTop},
	}
}

func (c *chart) yAxis(format func(float64) string) {
	for _, v := range c.y.ticks() {
		c.line("grid", chartLeft, c.y.at(v), chartWidth-chartRight, c.y.at(v))
		c.text("tick", "end", chartLeft-6, c.y.at(v)+4, format(v))
	}
}

// overTime draws how many operations each store finished a second while it was
// filled, in the round with the median throughput.
func (p *page) overTime(workload string) template.HTML {
	c := newChart("Throughput over time: " + workload)
	lines := map[string][]point{}
	for _, s := range p.Stores {
		cell := p.sum.Cell(workload, s.Name)
		if cell == nil || cell.Typical().Write == nil {
			continue
		}
		line := rates(cell.Typical().Write)
		for _, q := range line {
			c.x.high, c.y.high = max(c.x.high, q.x), max(c.y.high, q.y)
		}
		lines[s.Name] = line
	}
	if c.x.high == 0 || c.y.high == 0 {
		return ""
	}
	c.y.high *= 1.05
	c.yAxis(short)
	for _, v := range c.x.ticks() {
		c.text("tick", "middle", c.x.at(v), chartHeight-chartBottom+16, trim(v))
	}
	c.text("tick", "end", chartWidth-chartRight, chartHeight-4, "seconds")
	for _, s := range p.Stores {
		line := lines[s.Name]
		for i := range line {
			line[i] = point{c.x.at(line[i].x), c.y.at(line[i].y)}
		}
		if len(line) > 0 {
			c.path("line "+s.Class, line, s.Name)
		}
	}
	return c.end()
}

// rates are operations a second over seconds, without the last interval, which
// is not whole. Of a long series neighbours are joined.
func rates(w *results.Write) []point {
	series := w.Series[:max(0, len(w.Series)-1)]
	width := (len(series) + mostPoints - 1) / mostPoints
	var line []point
	for i := 0; width > 0 && i+width <= len(series); i += width {
		sum := int64(0)
		for _, n := range series[i : i+width] {
			sum += n
		}
		seconds := float64(width*w.SeriesMillis) / 1e3
		line = append(line, point{(float64(i) + float64(width)/2) * float64(w.SeriesMillis) / 1e3, float64(sum) / seconds})
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

// latencies draws the quantiles of single operations.
func (p *page) latencies(workload string) template.HTML {
	c := newChart("Latency: " + workload)
	c.x.low, c.x.high = -0.3, float64(len(quantiles))-0.7
	c.y.log, c.y.low = true, math.Inf(1)
	for _, s := range p.Stores {
		cell := p.sum.Cell(workload, s.Name)
		if cell == nil {
			continue
		}
		for _, q := range quantiles {
			v := max(cell.Median(q.figure), 0.001)
			c.y.low, c.y.high = min(c.y.low, v), max(c.y.high, v)
		}
	}
	if c.y.high == 0 {
		return ""
	}
	c.y.low, c.y.high = c.y.low*0.8, c.y.high*1.25
	c.yAxis(micros)
	for i, q := range quantiles {
		c.text("tick", "middle", c.x.at(float64(i)), chartHeight-chartBottom+16, q.name)
	}
	for _, s := range p.Stores {
		cell := p.sum.Cell(workload, s.Name)
		if cell == nil {
			continue
		}
		var line []point
		for i, q := range quantiles {
			line = append(line, point{c.x.at(float64(i)), c.y.at(max(cell.Median(q.figure), 0.001))})
		}
		c.path("line "+s.Class, line, s.Name)
		for i, q := range quantiles {
			c.dot(s.Class, line[i].x, line[i].y, s.Name+", "+q.name+": "+micros(cell.Median(q.figure)))
		}
	}
	return c.end()
}

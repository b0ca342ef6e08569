package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/benchmark"
	"github.com/shaledb/shale/internal/svg"
)

// A figure has panels side by side.
type figure struct {
	title, note   string
	panels        []*plot.Plot
	width, height vg.Length
}

// draw draws the figure.
func (f figure) draw() ([]byte, error) {
	c := vgsvg.New(f.width, f.height)
	all := draw.New(c)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	text := func(size, below vg.Length, s string) {
		style := plot.New().Title.TextStyle
		style.Font.Size, style.XAlign = size, 0
		all.FillText(style, vg.Point{X: 12, Y: f.height - below}, s)
	}
	text(15, 24, f.title)
	text(11, 42, f.note)
	tiles := draw.Tiles{Rows: 1, Cols: len(f.panels), PadX: 18}
	for i, p := range f.panels {
		p.Draw(tiles.At(draw.Crop(all, 8, -12, 8, -60), i, 0))
	}
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	// Not every machine has the font that the drawing was laid out with.
	return bytes.ReplaceAll(b.Bytes(), []byte("family:Liberation Sans"), []byte("family:Liberation Sans,Arial,sans-serif")), err
}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

var (
	blue   = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb4, A: 0xff}
	orange = color.RGBA{R: 0xd9, G: 0x6b, B: 0x0c, A: 0xff}
	green  = color.RGBA{R: 0x2a, G: 0x8a, B: 0x4a, A: 0xff}
	purple = color.RGBA{R: 0x7a, G: 0x4f, B: 0xb0, A: 0xff}
	grey   = color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
)

// A series is a line, marks, or both.
type series struct {
	name          string
	color         color.Color
	points        plotter.XYs
	labels        vg.Length // how far above each point its value stands; 0: nowhere
	dashed        bool
	noLine, marks bool
	hollow        bool
}

// logTicks are those inside a logarithmic axis. plot's own has one more, and makes room for it.
type logTicks struct{}

func (logTicks) Ticks(least, greatest float64) (inside []plot.Tick) {
	for _, t := range (plot.LogTicks{}).Ticks(least, greatest) {
		if t.Value < least || t.Value > greatest {
			continue
		}
		if t.Label != "" {
			t.Label = svg.Short(t.Value)
		}
		inside = append(inside, t)
	}
	return inside
}

// panel returns a plot with a logarithmic axis from the least to the greatest y. The title
// says what that is: a label of a logarithmic axis would be taken to stand near its end.
func panel(title, x string, least, greatest float64, all ...series) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, x
	p.Title.TextStyle.Font.Size = 12
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	p.Y.Min, p.Y.Max = least, greatest
	p.Legend.Left, p.BackgroundColor = true, nil
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, color.Gray{Y: 0xe0}
	p.Add(grid)
	for _, s := range all {
		// A logarithmic axis has no place for 0.
		var shown plotter.XYs
		var texts []string
		for _, at := range s.points {
			if at.Y > 0 {
				shown, texts = append(shown, at), append(texts, svg.Short(at.Y))
			}
		}
		if len(shown) == 0 {
			continue
		}
		// Only numbers that are none make errors.
		line, marks, err := plotter.NewLinePoints(shown)
		if err != nil {
			continue
		}
		line.Color, line.Width = s.color, 2
		marks.Color, marks.Radius, marks.Shape = s.color, 3, draw.CircleGlyph{}
		if s.dashed {
			line.Dashes = []vg.Length{6, 4}
		}
		if s.hollow {
			marks.Radius, marks.Shape = 4.5, draw.RingGlyph{}
		}
		var legend []plot.Thumbnailer
		if !s.noLine {
			p.Add(line)
			legend = append(legend, line)
		}
		if s.marks {
			p.Add(marks)
			legend = append(legend, marks)
		}
		if s.labels != 0 {
			if text, err := plotter.NewLabels(plotter.XYLabels{XYs: shown, Labels: texts}); err == nil {
				text.Offset.Y = s.labels
				for i := range text.TextStyle {
					text.TextStyle[i].XAlign = -0.5
				}
				p.Add(text)
			}
		}
		if s.name != "" {
			p.Legend.Add(s.name, legend...)
		}
	}
	return p
}

// bothWays returns two series of cells: with filters ignored, and on.
func bothWays(cells []*cell, y func(*cell) float64) (off, on series) {
	off = series{name: "filters ignored", color: orange, marks: true, labels: 6}
	on = series{name: "filters on", color: blue, marks: true, labels: -14}
	for _, c := range cells {
		s := &off
		if c.Filters {
			s = &on
		}
		s.points = append(s.points, plotter.XY{X: c.X, Y: y(c)})
	}
	return off, on
}

// split returns the cells with files in the page cache, and those with cold files.
func split(cells []*cell) (warm, cold []*cell) {
	for _, c := range cells {
		if c.Cold {
			cold = append(cold, c)
		} else {
			warm = append(warm, c)
		}
	}
	return warm, cold
}

// drawLevels draws what filters save in trees of different depth.
func drawLevels(data *benchmark.Dataset, cells []*cell) figure {
	warm, cold := split(cells)
	byLevel := func(title string, cells []*cell, value func(*cell) float64) *plot.Plot {
		off, on := bothWays(cells, value)
		least, greatest := 1., 1.
		for _, c := range cells {
			if v := value(c); v > 0 {
				least, greatest = min(least, v), max(greatest, v)
			}
		}
		p := panel(title, "levels", least/3, greatest*3, off, on)
		var ticks plot.ConstantTicks
		for _, at := range off.points {
			ticks = append(ticks, plot.Tick{Value: at.X, Label: strconv.Itoa(int(at.X))})
		}
		p.X.Tick.Marker, p.X.Min, p.X.Max = ticks, 0.7, float64(len(off.points))+0.3
		p.Legend.YOffs = 60 // between the lines
		return p
	}
	panels := []*plot.Plot{
		byLevel("reads of a file (pread) a miss", warm, func(c *cell) float64 { return c.BlockReads }),
		byLevel("bytes read a miss", warm, func(c *cell) float64 { return c.BytesRead }),
	}
	if len(cold) > 0 && cold[0].DeviceBytes >= 0 {
		panels = append(panels,
			byLevel("bytes from the device a miss, files cold", cold, func(c *cell) float64 { return c.DeviceBytes }))
	}
	for _, p := range panels[1:] {
		p.Legend = plot.NewLegend() // one is enough
	}
	off, on := warm[len(warm)-2], warm[len(warm)-1]
	return figure{
		title: fmt.Sprintf("An absent key in %.0f levels: %.3g reads without filters, %.2g with them",
			off.X, off.BlockReads, on.BlockReads),
		note:   fmt.Sprintf("%s; %d keys, 10 bits a key, no block cache", data.Name, len(data.Present)),
		panels: panels, width: 960, height: 320,
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

// drawBits draws false positives by the bits of the filters.
func drawBits(data *benchmark.Dataset, cells []*cell) figure {
	theory := series{name: "theory of one Bloom filter", color: grey}
	blocked := series{name: "theory of one filter in cache lines, as shale's", color: purple, dashed: true}
	for bits := 2.0; bits <= 24; bits += 0.5 {
		theory.points = append(theory.points, plotter.XY{X: bits, Y: standardFPR(bits)})
		if bits >= 4 {
			blocked.points = append(blocked.points, plotter.XY{X: bits, Y: bloom.PredictFPR(bits)})
		}
	}
	predicted := series{name: "predicted by the store", color: blue, dashed: true}
	each := series{name: "measured, one level with bits of its own", color: green, noLine: true, marks: true, hollow: true}
	total := series{name: "measured, all levels together", color: blue, marks: true, labels: 6}
	ten := cells[0]
	for _, c := range cells {
		if c.X == 10 {
			ten = c
		}
		total.points = append(total.points, plotter.XY{X: c.X, Y: c.BlockReads})
		if c.Filters {
			predicted.points = append(predicted.points, plotter.XY{X: c.X, Y: c.PredictedFPR})
		}
		for i, rate := range c.LevelFPR {
			if l := c.Levels[i]; l.Bits > 0 && l.Bits <= 24.5 && rate*float64(c.Lookups) >= 5 { // fewer mean nothing
				each.points = append(each.points, plotter.XY{X: l.Bits, Y: rate})
			}
		}
	}
	p := panel("block reads a miss: with filters, false positives",
		"filter bits a key: of the store on average, of a level its own", 5e-6, 12, theory, blocked, predicted, each, total)
	p.X.Min, p.X.Max = -0.8, 24.8
	var ticks plot.ConstantTicks
	for bits := 0; bits <= 24; bits += 2 {
		ticks = append(ticks, plot.Tick{Value: float64(bits), Label: strconv.Itoa(bits)})
	}
	p.X.Tick.Marker = ticks
	return figure{
		title: fmt.Sprintf("%.0f bits a key: %.2f %% of absent keys cost a block read; %.2f %% were predicted",
			ten.X, 100*ten.MeasuredFPR, 100*ten.PredictedFPR),
		note:   fmt.Sprintf("%s; %d keys in %d levels, no block cache", data.Name, len(data.Present), len(ten.Levels)),
		panels: []*plot.Plot{p}, width: 860, height: 440,
	}
}

package chart

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/svg"
)

// Geometry, in pixels.
const (
	marginLeft, marginRight = 62, 18
	barHeight               = 10
	marginTop, marginBottom = 30, 46
	headHeight              = 50
	legendHeight            = 22
)

const style = `.shale{--ground:#fff;--text:#1f2328;--soft:#59636e;--grid:#e4e7ea;--axis:#9aa2ab;` +
	`--c0:#0069c2;--c1:#d1520a;--c2:#7a828b;--c3:#16803c;--c4:#8440c2;--c5:#b27f00;--c6:#c4488b;--c7:#8a3d0c;font:12px system-ui,sans-serif}` +
	`@media(prefers-color-scheme:dark){.shale{--ground:#14181d;--text:#e6eaee;--soft:#a0a8b1;--grid:#2b3138;--axis:#68717b;` +
	`--c0:#5eb1ff;--c1:#ff9a52;--c2:#9ba4ae;--c3:#4fc47c;--c4:#c493ff;--c5:#dfae2b;--c6:#f088b8;--c7:#d9a27e}}` +
	`.shale text{fill:var(--text)}.shale .soft{fill:var(--soft)}.shale .title{font-size:16px;font-weight:600}` +
	`.shale .panel{font-weight:600}.shale .grid{stroke:var(--grid)}.shale .axis{stroke:var(--axis);fill:none}` +
	`.shale .m{text-anchor:middle}.shale .e{text-anchor:end}.shale .halo{paint-order:stroke;stroke:var(--ground);stroke-width:3px}` +
	`.shale .small{font-size:10px}.shale .l{fill:none;stroke-width:2;stroke-linejoin:round}`

// A layout is where the parts of a figure go.
type layout struct {
	legend      []entry
	top, height float64
}

// An entry explains a series in the legend.
type entry struct {
	Series
	x, y float64
}

// plan fills in the defaults and lays the figure out.
func (f *Figure) plan() layout {
	if f.Width == 0 {
		f.Width = 880
	}
	if f.Height == 0 {
		f.Height = 300
	}
	if f.Columns == 0 {
		f.Columns = max(len(f.Panels), 1)
	}
	if f.Left == 0 {
		f.Left = marginLeft
	}
	p := layout{top: headHeight}
	if f.Note == "" {
		p.top -= 18
	}
	p.legend = f.legend(p.top + 10)
	if n := len(p.legend); n > 0 {
		p.top = p.legend[n-1].y - 10 + legendHeight
	}
	rows := (len(f.Panels) + f.Columns - 1) / f.Columns
	if !slices.ContainsFunc(f.Panels, func(p Panel) bool { return p.Title != "" }) {
		p.top -= marginTop - 14 // where the titles would be
	}
	p.height = p.top + float64(rows)*f.Height + 6
	return p
}

// legend returns the series to explain, each name once, from left to right and in
// lines from y downwards.
func (f *Figure) legend(y float64) (all []entry) {
	seen := map[string]bool{"": true}
	x := 16.0
	for _, p := range f.Panels {
		for _, s := range p.Series {
			if seen[s.Name] {
				continue
			}
			seen[s.Name] = true
			w := 34 + 6.4*float64(utf8.RuneCountInString(s.Name)) + 18
			if x+w > f.Width && x > 16 {
				x, y = 16, y+legendHeight
			}
			all = append(all, entry{s, x, y})
			x += w
		}
	}
	return all
}

// PanelHeight returns the height of a panel, for a plot of a height.
func PanelHeight(plot float64) float64 { return marginTop + plot + marginBottom }

// Size returns what SVG will be, in pixels.
func (f *Figure) Size() (width, height float64) {
	p := f.plan()
	return f.Width, p.height
}

// SVG returns the figure as a document.
func (f *Figure) SVG() []byte {
	p := f.plan()
	d := drawing{f.Left, svg.New(f.Width, p.height, f.Title, `class="shale"`)}
	d.Add("<style>%v</style>\n", svg.Markup(style))
	d.Add(`<rect width="%v" height="%v" fill="var(--ground)"/>`, f.Width, p.height)
	d.text(16, 24, "title", f.Title)
	if f.Note != "" {
		d.text(16, 42, "soft", f.Note)
	}
	for _, e := range p.legend {
		if !e.NoLine {
			d.Add(`<path class="l" d="M%v %vh24" %v/>`, e.x, e.y-4, stroke(e.Series))
		}
		if !e.NoMarks {
			d.mark(e.x+12, e.y-4, e.Series, "")
		}
		d.text(e.x+30, e.y, "", e.Name)
	}
	w := f.Width / float64(f.Columns)
	for i := range f.Panels {
		x, y := float64(i%f.Columns)*w, p.top+float64(i/f.Columns)*f.Height
		d.panel(&f.Panels[i], box{x + f.Left, y + marginTop, w - f.Left - marginRight, f.Height - marginTop - marginBottom})
	}
	return d.End()
}

type drawing struct {
	left float64 // of each panel
	*svg.Drawing
}

// A box is where a panel's plot goes.
type box struct{ x, y, w, h float64 }

func (d drawing) text(x, y float64, class svg.Markup, s string) {
	d.Text(x, y, `class="`+class+`"`, s)
}

func stroke(s Series) svg.Markup {
	dash := ""
	if s.Dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	return svg.Markup(fmt.Sprintf(`stroke="var(--c%d)"%s`, s.Color, dash))
}

func (d drawing) mark(x, y float64, s Series, tip string) {
	radius, fill := 3.2, svg.Markup(fmt.Sprintf("var(--c%d)", s.Color))
	if s.Hollow {
		radius, fill = 5, "none"
	}
	d.Add(`<circle cx="%v" cy="%v" r="%v" fill="%v" stroke="var(--c%d)" stroke-width="1.5">`, x, y, radius, fill, s.Color)
	if tip != "" {
		d.Add("<title>%v</title>", tip)
	}
	d.Add("</circle>\n")
}

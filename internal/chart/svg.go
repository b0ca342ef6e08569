package chart

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Geometry, in pixels.
const (
	marginLeft, marginRight = 62, 18
	marginTop, marginBottom = 30, 46
	headHeight              = 50
	legendHeight            = 22
)

const style = `.shale{--ground:#fff;--text:#1f2328;--soft:#59636e;--grid:#e4e7ea;--axis:#9aa2ab;` +
	`--c0:#0069c2;--c1:#d1520a;--c2:#7a828b;--c3:#16803c;--c4:#8440c2;font:12px system-ui,sans-serif}` +
	`@media(prefers-color-scheme:dark){.shale{--ground:#14181d;--text:#e6eaee;--soft:#a0a8b1;--grid:#2b3138;--axis:#68717b;` +
	`--c0:#5eb1ff;--c1:#ff9a52;--c2:#9ba4ae;--c3:#4fc47c;--c4:#c493ff}}` +
	`.shale text{fill:var(--text)}.shale .soft{fill:var(--soft)}.shale .title{font-size:16px;font-weight:600}` +
	`.shale .panel{font-weight:600}.shale .grid{stroke:var(--grid)}.shale .axis{stroke:var(--axis);fill:none}` +
	`.shale .m{text-anchor:middle}.shale .e{text-anchor:end}.shale .halo{paint-order:stroke;stroke:var(--ground);stroke-width:3px}` +
	`.shale .l{fill:none;stroke-width:2;stroke-linejoin:round}`

// A layout is where the parts of a figure go.
type layout struct {
	names               []Series
	legend, top, height float64
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
	p := layout{names: f.legend(), top: headHeight}
	if f.Note == "" {
		p.top -= 18
	}
	p.legend = p.top + 10
	if len(p.names) > 0 {
		p.top += legendHeight * float64((&drawing{}).legend(p.names, 0, f.Width, false))
	}
	rows := (len(f.Panels) + f.Columns - 1) / f.Columns
	if !slices.ContainsFunc(f.Panels, func(p Panel) bool { return p.Title != "" }) {
		p.top -= marginTop - 14 // where the titles would be
	}
	p.height = p.top + float64(rows)*f.Height + 6
	return p
}

// SVG returns the figure as a document.
func (f *Figure) SVG() []byte {
	p := f.plan()
	d := &drawing{}
	height := p.height
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="shale" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">`,
		num(f.Width), num(height), num(f.Width), num(height), Escape(f.Title))
	d.printf("<style>%s</style>\n", style)
	d.printf(`<rect width="%s" height="%s" fill="var(--ground)"/>`, num(f.Width), num(height))
	d.text(16, 24, "title", f.Title)
	if f.Note != "" {
		d.text(16, 42, "soft", f.Note)
	}
	d.legend(p.names, p.legend, f.Width, true)
	w := f.Width / float64(f.Columns)
	for i := range f.Panels {
		x, y := float64(i%f.Columns)*w, p.top+float64(i/f.Columns)*f.Height
		d.panel(&f.Panels[i], box{x + marginLeft, y + marginTop, w - marginLeft - marginRight, f.Height - marginTop - marginBottom})
	}
	d.printf("</svg>\n")
	return []byte(d.b.String())
}

// legend returns the series to explain, each name once.
func (f *Figure) legend() []Series {
	var all []Series
	seen := map[string]bool{"": true}
	for _, p := range f.Panels {
		for _, s := range p.Series {
			if !seen[s.Name] {
				seen[s.Name] = true
				all = append(all, s)
			}
		}
	}
	return all
}

type drawing struct{ b strings.Builder }

// A box is where a panel's plot goes.
type box struct{ x, y, w, h float64 }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

func (d *drawing) text(x, y float64, class, s string) {
	d.printf("<text x=\"%s\" y=\"%s\" class=\"%s\">%s</text>\n", num(x), num(y), class, Escape(s))
}

// num writes a coordinate.
func num(v float64) string {
	s := fmt.Sprintf("%.1f", v)
	return strings.TrimSuffix(s, ".0")
}

// legend draws entries from left to right and returns in how many lines.
func (d *drawing) legend(names []Series, y, width float64, draw bool) int {
	x, lines := 16.0, 1
	for _, s := range names {
		w := 34 + 6.4*float64(len([]rune(s.Name))) + 18
		if x+w > width && x > 16 {
			x, y = 16, y+legendHeight
			lines++
		}
		if draw {
			if !s.NoLine {
				d.printf(`<path class="l" d="M%s %sh24" %s/>`, num(x), num(y-4), stroke(s))
			}
			if !s.NoMarks {
				d.mark(x+12, y-4, s, "")
			}
			d.text(x+30, y, "", s.Name)
		}
		x += w
	}
	return lines
}

func stroke(s Series) string {
	dash := ""
	if s.Dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	return fmt.Sprintf(`stroke="var(--c%d)"%s`, s.Color, dash)
}

func (d *drawing) mark(x, y float64, s Series, tip string) {
	radius, fill := 3.2, fmt.Sprintf("var(--c%d)", s.Color)
	if s.Hollow {
		radius, fill = 5, "none"
	}
	d.printf(`<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="var(--c%d)" stroke-width="1.5">`, num(x), num(y), num(radius), fill, s.Color)
	if tip != "" {
		d.printf("<title>%s</title>", Escape(tip))
	}
	d.printf("</circle>\n")
}

// Size returns what SVG will be, in pixels.
func (f *Figure) Size() (width, height float64) {
	p := f.plan()
	return f.Width, p.height
}

// Escape makes s, which may be any bytes, text of an SVG or HTML document, also
// between quotes.
func Escape(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return '\uFFFD' // XML has no such character
		}
		return r
	}, s))
}

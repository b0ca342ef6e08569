package chart

import "github.com/shaledb/shale/internal/svg"

// panel draws axes and series into b.
func (d drawing) panel(p *Panel, b box) {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, pt := range s.Points {
			xs, ys = append(xs, pt.X), append(ys, pt.Y)
		}
	}
	if p.Right != nil {
		b.w -= marginLeft - marginRight + 8
	}
	sx, sy := newScale(p.X, xs), newScale(p.Y, ys)
	d.text(b.x-d.left+16, b.y-12, "panel", p.Title)
	d.yAxis(p, p.Y, sy, b, false)
	d.xAxis(p, sx, b)
	if p.Right != nil {
		d.yAxis(p, *p.Right, newScale(*p.Right, nil), b, true)
	}
	for _, s := range p.Series {
		d.series(p, s, sx, sy, b)
	}
}

// yAxis draws ticks and the label, and for the axis on the left lines across. Bars lie
// between such lines: they get upright ones, of xAxis.
func (d drawing) yAxis(p *Panel, a Axis, s scale, b box, right bool) {
	ticks := a.Ticks
	if ticks == nil {
		ticks = s.ticks(max(int(b.h/38), 2), a.Format)
	}
	for _, t := range ticks {
		at, _ := s.at(t.At)
		y := b.y + b.h*(1-at)
		if right {
			d.text(b.x+b.w+7, y+4, "soft", t.Text)
			continue
		}
		if !p.Bars {
			d.Add(`<path class="grid" d="M%v %vh%v"/>`, b.x, y, b.w)
		}
		d.text(b.x-7, y+4, "soft e", t.Text)
	}
	x := b.x - d.left + 16
	if right {
		x = b.x + b.w + marginLeft - 4
	}
	d.Add(`<g transform="translate(%v %v) rotate(-90)">`, x, b.y+b.h/2)
	d.text(0, 0, "soft m", a.Label)
	d.Add("</g>\n")
}

func (d drawing) xAxis(p *Panel, s scale, b box) {
	ticks := p.X.Ticks
	if ticks == nil {
		ticks = s.ticks(max(int(b.w/62), 2), p.X.Format)
	}
	d.Add(`<path class="axis" d="M%v %vh%v"/>`, b.x, b.y+b.h, b.w)
	for _, t := range ticks {
		at, _ := s.at(t.At)
		x := b.x + b.w*at
		if p.Bars && t.At == 1 {
			d.Add(`<path class="axis" d="M%v %vv%v"/>`, x, b.y, b.h)
		} else if p.Bars {
			d.Add(`<path class="grid" d="M%v %vv%v"/>`, x, b.y, b.h)
		}
		d.Add(`<path class="axis" d="M%v %vv4"/>`, x, b.y+b.h)
		d.text(x, b.y+b.h+17, "soft m", t.Text)
	}
	d.text(b.x+b.w/2, b.y+b.h+35, "soft m", p.X.Label)
}

// A spot is where a point is drawn.
type spot struct {
	x, y float64
	Point
}

func (d drawing) series(p *Panel, s Series, sx, sy scale, b box) {
	var spots []spot
	for _, pt := range s.Points {
		x, okX := sx.at(pt.X)
		y, okY := sy.at(pt.Y)
		if !okY && pt.Y == 0 {
			y, okY = 0, true // 0 of a logarithmic axis is at its end
		}
		if !okX || !okY {
			continue
		}
		spots = append(spots, spot{b.x + b.w*x, b.y + b.h*(1-y), pt})
	}
	if !s.NoLine && len(spots) > 1 {
		d.Add(`<path class="l" d="M%v %v`, spots[0].x, spots[0].y)
		for _, at := range spots[1:] {
			d.Add("L%v %v", at.x, at.y)
		}
		d.Add("\" %v/>\n", stroke(s))
	}
	for _, at := range spots {
		text := at.Text
		if text == "" {
			text = svg.Short(at.Y)
		}
		tip := at.Tip
		if tip == "" {
			tip = p.X.Label + " " + svg.Short(at.X) + ": " + text
		}
		tip = s.Name + ", " + tip
		switch {
		case p.Bars:
			one, _ := sx.at(1)
			d.bar(b.x+b.w*one, at, s.Color, text, tip)
		case !s.NoMarks:
			d.mark(at.x, at.y, s, tip)
		}
		if s.Labels {
			dy := -9.0
			if s.Below && at.y+18 <= b.y+b.h { // the ticks of the axis stand lower
				dy = 18
			}
			d.text(at.x, at.y+dy, "m halo", text)
		}
	}
}

// bar draws a bar from x to the spot, and its text at that end.
func (d drawing) bar(x float64, at spot, color Color, text, tip string) {
	from, to, textX, class := x, at.x, at.x+4, svg.Markup("soft small")
	if to < from {
		from, to, textX, class = to, from, at.x-4, "soft small e"
	}
	d.Add(`<rect x="%v" y="%v" width="%v" height="%v" rx="1.5" fill="var(--c%d)"><title>%v</title></rect>`, from, at.y-barHeight/2, max(to-from, 1), barHeight, color, tip)
	d.text(textX, at.y+3.5, class, text)
}

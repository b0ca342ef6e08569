package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// An svg is a drawing under way. Colours come from the classes of the page, so
// that it follows light and dark.
type svg struct {
	b             strings.Builder
	width, height float64
}

func newSVG(width, height float64, title string) *svg {
	s := &svg{width: width, height: height}
	fmt.Fprintf(&s.b, `<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`, px(width), px(height), html.EscapeString(title))
	return s
}

func (s *svg) end() template.HTML {
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String()) // every text in it has been escaped
}

// px is a coordinate: two digits behind the point are enough.
func px(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, px(x1), px(y1), px(x2), px(y2))
}

// rect has a tooltip.
func (s *svg) rect(class string, x, y, w, h float64, tip string) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="1.5"><title>%s</title></rect>`,
		class, px(x), px(y), px(w), px(h), html.EscapeString(tip))
}

func (s *svg) dot(class string, x, y float64, tip string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%s" cy="%s" r="3"><title>%s</title></circle>`, class, px(x), px(y), html.EscapeString(tip))
}

// text is placed at its start, middle or end.
func (s *svg) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, px(x), px(y), html.EscapeString(text))
}

type point struct{ x, y float64 }

func (s *svg) path(class string, points []point, tip string) {
	var d strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		d.WriteString(command + px(p.x) + " " + px(p.y))
	}
	fmt.Fprintf(&s.b, `<path class="%s" d="%s"><title>%s</title></path>`, class, d.String(), html.EscapeString(tip))
}

// A scale places values between two coordinates.
type scale struct {
	low, high float64 // values
	from, to  float64 // coordinates
	log       bool
}

func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, s.low/10))
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// ticks are round values: of a logarithmic scale the powers of ten, with 2 and
// 5 times those where there are few.
func (s scale) ticks() []float64 {
	var all []float64
	if s.log {
		steps := []float64{1}
		if s.high/s.low < 3000 {
			steps = []float64{1, 2, 5}
		}
		for p := math.Pow(10, math.Floor(math.Log10(s.low))); p <= s.high; p *= 10 {
			for _, k := range steps {
				if v := p * k; v >= s.low*0.999 && v <= s.high*1.001 {
					all = append(all, v)
				}
			}
		}
		return all
	}
	step := roundStep((s.high - s.low) / 5)
	for v := math.Ceil(s.low/step) * step; v <= s.high*1.0001; v += step {
		all = append(all, v)
	}
	return all
}

// roundStep is 1, 2 or 5 times a power of ten, and not below x.
func roundStep(x float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, k := range []float64{1, 2, 5} {
		if p*k >= x {
			return p * k
		}
	}
	return p * 10
}

// short is a number in few characters.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return trim(v/1e6) + "M"
	case a >= 1e3:
		return trim(v/1e3) + "k"
	default:
		return trim(v)
	}
}

// trim is a number with three digits.
func trim(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	case a >= 1:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	default:
		return fmt.Sprintf("%.2g", v)
	}
}

// micros is a duration that is given in microseconds.
func micros(v float64) string {
	switch {
	case v >= 1e6:
		return trim(v/1e6) + " s"
	case v >= 1e3:
		return trim(v/1e3) + " ms"
	case v >= 1:
		return trim(v) + " µs"
	default:
		return trim(v*1e3) + " ns"
	}
}

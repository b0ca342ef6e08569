package chart

import (
	"math"

	"github.com/shaledb/shale/internal/svg"
)

// A scale maps the values of an axis to 0..1.
type scale struct {
	log    bool
	lo, hi float64 // logarithms if log
}

// newScale chooses bounds that hold all values; those that a logarithmic axis
// can't show are left out.
func newScale(a Axis, values []float64) scale {
	s := scale{log: a.Log, lo: math.Inf(1), hi: math.Inf(-1)}
	for _, v := range values {
		if v, ok := s.value(v); ok {
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
	if s.lo > s.hi {
		s.lo, s.hi = 0, 1
	}
	switch {
	case a.Min != a.Max:
		s.lo, _ = s.value(a.Min)
		s.hi, _ = s.value(a.Max)
	case a.Log:
		pad := max(0.12*(s.hi-s.lo), 0.1)
		s.lo, s.hi = s.lo-pad, s.hi+pad
	default:
		if s.lo > 0 && s.lo < 0.7*s.hi {
			s.lo = 0
		}
		pad := 0.06 * (s.hi - s.lo)
		if pad == 0 {
			pad = max(math.Abs(s.hi)/10, 1e-9)
		}
		if s.hi += pad; s.lo != 0 {
			s.lo -= pad
		}
	}
	return s
}

// value returns what is linear on the axis.
func (s scale) value(v float64) (float64, bool) {
	if s.log {
		return math.Log10(v), v > 0 && !math.IsInf(v, 1)
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (s scale) at(v float64) (float64, bool) {
	x, ok := s.value(v)
	return (x - s.lo) / (s.hi - s.lo), ok
}

// ticks returns marks inside the bounds, about n of them.
func (s scale) ticks(n int, format func(float64) string) []Tick {
	if format == nil {
		format = svg.Short
	}
	var ticks []Tick
	add := func(v float64) {
		if at, ok := s.at(v); ok && at > -1e-9 && at < 1+1e-9 {
			ticks = append(ticks, Tick{v, format(v)})
		}
	}
	if s.log {
		steps, every := []float64{1}, 1
		switch span := s.hi - s.lo; {
		case span <= 1.3:
			steps = []float64{1, 2, 5}
		case span <= 2.6:
			steps = []float64{1, 3}
		case span > float64(n):
			every = int(math.Ceil(span / float64(n)))
		}
		for e := int(math.Floor(s.lo)); e <= int(math.Ceil(s.hi)); e++ {
			for _, m := range steps {
				if e%every == 0 {
					add(m * math.Pow10(e))
				}
			}
		}
		return ticks
	}
	step := math.Pow10(int(math.Floor(math.Log10((s.hi - s.lo) / float64(n)))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (s.hi-s.lo)/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi+step*1e-9; i++ {
		add(i * step)
	}
	return ticks
}

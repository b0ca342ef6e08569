package treepicture

import (
	"fmt"
	"math"
)

// The ends of the colours: pale to dark for amounts, and for what should be
// one, blue where it is less and red where it is more.
var (
	pale, deep      = rgb{214, 230, 244}, rgb{8, 64, 129}
	less, even, too = rgb{33, 102, 172}, rgb{240, 236, 224}, rgb{178, 24, 43}
	none            = rgb{200, 200, 200} // of what has no filter, or was not measured
	memory          = rgb{27, 120, 55}   // of what is not in a table yet
)

type rgb [3]float64

func (a rgb) mix(b rgb, part float64) rgb {
	for i := range a {
		a[i] += (b[i] - a[i]) * part
	}
	return a
}

func (a rgb) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(a[0]+0.5), int(a[1]+0.5), int(a[2]+0.5))
}

// dark reports whether white text is easier to read on the colour than black text.
func (a rgb) dark() bool { return 0.3*a[0]+0.6*a[1]+0.1*a[2] < 125 }

// bitsAtDark is the bits a key with the darkest colour, ratioAtEnd the ratio of
// measured to predicted with the reddest.
const (
	bitsAtDark = 24
	ratioAtEnd = 4
)

// The colours of tables; those of sizes are relative to the largest.
type colours struct{ maxSize int64 }

// coloursOf returns the colours of the tables of levels.
func coloursOf(levels []Level) (c colours) {
	for t := range tables(levels) {
		c.maxSize = max(c.maxSize, t.Size)
	}
	return c
}

// part returns where t stands between pale and deep, or between less and too;
// false: nowhere.
func (c colours) part(t *Table, by Colouring) (part float64, known bool) {
	switch by {
	case ByFPR:
		if t.Asked == 0 || t.PredictedFPR <= 0 || t.Filter == "" {
			return 0, false
		}
		ratio := t.MeasuredFPR / t.PredictedFPR
		return (math.Log(ratio)/math.Log(ratioAtEnd) + 1) / 2, true
	case BySize:
		return math.Sqrt(float64(t.Size) / float64(max(c.maxSize, 1))), true
	default:
		return t.FilterBits / bitsAtDark, t.FilterBits > 0
	}
}

// of returns the colour of t.
func (c colours) of(t *Table, by Colouring) rgb {
	part, known := c.part(t, by)
	if !known {
		return none
	}
	return colourAt(part, by)
}

// colourAt returns the colour of a part, which may be beyond the ends.
func colourAt(part float64, by Colouring) rgb {
	part = min(max(part, 0), 1)
	switch {
	case by != ByFPR:
		return pale.mix(deep, part)
	case part < 0.5:
		return less.mix(even, 2*part)
	}
	return even.mix(too, 2*part-1)
}

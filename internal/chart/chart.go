// Package chart draws figures of measurements as SVG: lines, points and bars in
// panels, with linear and logarithmic axes. A figure stands alone, is small,
// and follows the reader's choice of light or dark.
package chart

// A Figure is one or more panels under a title, with one legend for all.
type Figure struct {
	Title   string
	Note    string // a line below the title
	Panels  []Panel
	Columns int     // panels side by side; 0: all
	Width   float64 // 0: 880
	Height  float64 // of a panel; 0: 300
	Left    float64 // room for the ticks left of a panel; 0: 62
}

// A Panel is a plot with axes of its own.
type Panel struct {
	Title  string
	X, Y   Axis
	Right  *Axis // a second axis for the same points, with bounds; nil: none
	Series []Series
	Bars   bool // from 1 on the X axis to each point, with its text
}

// An Axis with Min = Max = 0 takes its bounds from the series.
type Axis struct {
	Label    string
	Log      bool
	Min, Max float64
	Ticks    []Tick               // nil: chosen
	Format   func(float64) string // of chosen ticks; nil: svg.Short
}

// A Tick is a mark of an axis.
type Tick struct {
	At   float64
	Text string
}

// A Series is points, and the line through them. Series of one name, in any
// panel, are one entry of the legend; a name of "" is in none.
type Series struct {
	Name    string
	Points  []Point
	Color   Color
	Dashed  bool
	Hollow  bool // markers
	NoLine  bool
	NoMarks bool
	Labels  bool // write each point's Text, or Y, beside it
	Below   bool // labels under the points
}

// A Point of a series. Text, if there is one, is what a label and a tooltip say; Tip,
// if there is one, is what a tooltip says instead.
type Point struct {
	X, Y      float64
	Text, Tip string
}

// A Color is one of a fixed palette, for light ground and for dark. The first five
// can be told apart also by readers who see no red or green.
type Color int

// The palette.
const (
	Blue Color = iota
	Orange
	Grey
	Green
	Purple
	Gold
	Pink
	Brown
)

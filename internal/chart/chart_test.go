package chart

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/svg/svgtest"
)

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		axis   Axis
		values []float64
		n      int
		want   string
	}{
		{Axis{}, []float64{0, 10}, 6, "0 2 4 6 8 10"},
		{Axis{}, []float64{3, 5}, 5, "0 2 4"}, // from zero, as it is near
		{Axis{}, []float64{95, 100}, 5, "96 98 100"},
		{Axis{}, []float64{7}, 4, "6.5 7 7.5"},
		{Axis{}, nil, 3, "0 0.5 1"},
		{Axis{Min: 0, Max: 0.4}, nil, 4, "0 0.1 0.2 0.3 0.4"},
		{Axis{Log: true}, []float64{0.01, 5}, 8, "0.01 0.1 1 10"},
		{Axis{Log: true}, []float64{0, 2, 20}, 8, "2 5 10 20"},
		{Axis{Log: true}, []float64{20, 2000}, 8, "30 100 300 1k 3k"},
		{Axis{Log: true, Min: 1e-6, Max: 1e6}, nil, 5, "0.000001 0.001 1 1k 1M"},
		{Axis{Log: true}, []float64{0, -1}, 5, "1 2 5 10"},
	} {
		var got []string
		for _, tick := range newScale(tt.axis, tt.values).ticks(tt.n, nil) {
			got = append(got, tick.Text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v of %v: %q, want %s", tt.axis, tt.values, got, tt.want)
		}
	}
}

func figure() *Figure {
	return &Figure{
		Title: `reads & <b>"writes"</b>`, Note: "a note\x00\xff",
		Panels: []Panel{
			{
				Title: "left", X: Axis{Label: "x"}, Y: Axis{Label: "y", Log: true}, Right: &Axis{Label: "right", Min: 1, Max: 100},
				Series: []Series{
					{Name: "a <i>", Points: []Point{{X: 1, Y: 100}, {X: 2, Y: 0}, {X: 3, Y: 1, Text: "one & only"}}, Labels: true},
					{Name: "b", Color: Orange, Points: []Point{{X: 1, Y: 5}, {X: math.NaN(), Y: 3}, {X: 2, Y: math.Inf(1)}, {X: 3, Y: 7}}, Dashed: true},
				},
			},
			{X: Axis{}, Y: Axis{}, Series: []Series{{Name: "b", NoLine: true, Hollow: true, Points: []Point{{X: 1, Y: 1}}}, {Points: []Point{{X: 2, Y: 2}}}}},
			{},
		},
		Columns: 2,
	}
}

func TestSVG(t *testing.T) {
	f := figure()
	svg := string(f.SVG())
	texts, _ := svgtest.Parse(t, svg)
	all := strings.Join(texts, "|")
	for _, want := range []string{`reads & <b>"writes"</b>`, "a note\uFFFD\uFFFD", "|a <i>|", "|b|", "|one & only|", "|100|", "|0|", "|right|", "a <i>, x 3: one & only"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
	for _, not := range []string{"NaN", "Inf", "<b>", "<i>"} {
		if strings.Contains(svg, not) {
			t.Errorf("%q in\n%s", not, svg)
		}
	}
	if n := strings.Count(all, "|b|"); n != 1 {
		t.Errorf("a series of two panels is %d times in the legend", n)
	}
	if again := string(figure().SVG()); again != svg {
		t.Error("the same figure is drawn in another way")
	}
}

// All that is drawn lies inside the figure, and lower values lie lower.
func TestSVG_Inside(t *testing.T) {
	f := figure()
	svg := string(f.SVG())
	width, height := f.Size()
	if !strings.Contains(svg, fmt.Sprintf(`viewBox="0 0 %v %v"`, width, height)) {
		t.Errorf("Size() = %v, %v, but %.300s", width, height, svg)
	}
	var ys []float64
	for _, m := range regexp.MustCompile(`<circle cx="([^"]+)" cy="([^"]+)"[^>]*><title>`).FindAllStringSubmatch(svg, -1) {
		x, errX := strconv.ParseFloat(m[1], 64)
		y, errY := strconv.ParseFloat(m[2], 64)
		if errX != nil || errY != nil || x < 0 || x > width || y < 0 || y > height {
			t.Errorf("a point at %s, %s of %v, %v", m[1], m[2], width, height)
		}
		ys = append(ys, y)
	}
	if len(ys) != 7 || ys[0] >= ys[2] || ys[2] >= ys[1] {
		t.Errorf("100, 0 and 1 are at the heights %v", ys)
	}
}

// A label below its point would cover the ticks if the point lies on the axis.
func TestSVG_LabelsBelow(t *testing.T) {
	f := &Figure{Panels: []Panel{{Y: Axis{Min: 0, Max: 10}, Series: []Series{{
		Labels: true, Below: true, Points: []Point{{X: 1, Y: 5, Text: "five"}, {X: 2, Y: 0, Text: "none"}},
	}}}}}
	var below []bool
	for _, m := range regexp.MustCompile(`<circle cx="[^"]+" cy="([^"]+)"(?s:.*?)<text x="[^"]+" y="([^"]+)" class="m halo">(?:five|none)<`).FindAllStringSubmatch(string(f.SVG()), -1) {
		point, _ := strconv.ParseFloat(m[1], 64)
		label, _ := strconv.ParseFloat(m[2], 64)
		below = append(below, label > point)
	}
	if !slices.Equal(below, []bool{true, false}) {
		t.Errorf("labels below the points 5 and 0: %v, want true, false", below)
	}
}

func TestSVG_Empty(t *testing.T) {
	for _, f := range []*Figure{{}, {Panels: []Panel{{Y: Axis{Log: true}, Series: []Series{{Name: "none"}}}}}} {
		if svg := string(f.SVG()); strings.Contains(svg, "NaN") || !strings.HasSuffix(svg, "</svg>\n") {
			t.Errorf("%s", svg)
		}
	}
}

// Bars begin at 1, reach to their points, and have their texts outside.
func TestSVG_Bars(t *testing.T) {
	f := &Figure{Left: 200, Width: 500, Height: PanelHeight(40), Panels: []Panel{{
		Bars: true, X: Axis{Log: true, Min: 0.1, Max: 10}, Y: Axis{Min: -4, Ticks: []Tick{{At: -2, Text: "<work>"}}},
		Series: []Series{{Name: "s", Color: Brown, NoLine: true, Points: []Point{
			{X: 10, Y: -1, Text: "<ten>", Tip: "ten & more"}, {X: 0.1, Y: -2}, {X: 1, Y: -3}, {X: 0, Y: -4}, {X: math.NaN(), Y: -4},
		}}},
	}}}
	drawn := string(f.SVG())
	// The plot is from 200 to 482; 1 is in its middle.
	bars := regexp.MustCompile(`<rect x="([^"]+)" y="[^"]+" width="([^"]+)" height="10" rx="1.5" fill="var\(--c7\)"><title>([^<]*)</title></rect><text x="([^"]+)" y="[^"]+" class="([^"]+)">([^<]*)<`).FindAllStringSubmatch(drawn, -1)
	want := [][]string{
		{"341", "141", "s, ten &amp; more", "486", "soft small", "&lt;ten&gt;"},
		{"200", "141", "s,  0.1: -2", "196", "soft small e", "-2"},
		{"341", "1", "s,  1: -3", "345", "soft small", "-3"},
	}
	if len(bars) != len(want) {
		t.Fatalf("bars %q in\n%s", bars, drawn)
	}
	for i, bar := range bars {
		if !slices.Equal(bar[1:], want[i]) {
			t.Errorf("bar %d is %q, want %q", i, bar[1:], want[i])
		}
	}
	if !strings.Contains(drawn, "&lt;work&gt;") || strings.Contains(drawn, "NaN") {
		t.Errorf("%s", drawn)
	}
}

package treepicture

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/base"
)

// The measures, in pixels.
const (
	defaultWidth = 1200
	left, right  = 64, 176 // beside the bars: names and sums of the rows
	rowHeight    = 24
	barHeight    = 18
	levelGap     = 6
	ticks        = 6
	shortKey     = 40
)

// A drawing is an SVG under way.
type drawing struct {
	Options
	w      *bufio.Writer
	levels []Level
	scale  *Scale
	colour Range
	inner  float64 // width of the bars
	y      int
}

// Draw writes the picture of levels as an SVG.
func Draw(w io.Writer, levels []Level, o Options) error {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	if o.Key == nil {
		o.Key = quoted
	}
	o.Width = max(o.Width, left+right+100)
	d := &drawing{
		Options: o, w: bufio.NewWriter(w), levels: levels,
		scale: NewScale(levels), colour: RangeOf(levels), inner: float64(o.Width - left - right),
	}
	height := 80 // of title, keys and legend
	for _, l := range levels {
		height += rowHeight*len(rows(l.Tables)) + levelGap
	}
	fmt.Fprintf(d.w, `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`+"\n",
		o.Width, height, o.Width, height)
	d.title()
	for _, l := range levels {
		d.level(l)
	}
	d.keys()
	d.legend()
	fmt.Fprint(d.w, "</svg>\n")
	return d.w.Flush()
}

func (d *drawing) title() {
	d.y = 8
	if d.Title != "" {
		fmt.Fprintf(d.w, `<title>%s</title><text x="%d" y="20" font-size="14" font-weight="600" fill="currentColor">%[1]s</text>`+"\n", escape(d.Title), left)
		d.y = 32
	}
	if !slices.ContainsFunc(d.levels, func(l Level) bool { return len(l.Tables) > 0 }) {
		fmt.Fprintf(d.w, `<text x="%d" y="%d" fill="currentColor">no tables</text>`+"\n", left, d.y+14)
	}
}

// rows returns the tables run by run, the newest run first.
func rows(tables []Table) [][]Table {
	byRun := map[int][]Table{}
	for _, t := range tables {
		byRun[t.Run] = append(byRun[t.Run], t)
	}
	runs := make([]int, 0, len(byRun))
	for run := range byRun {
		runs = append(runs, run)
	}
	slices.SortFunc(runs, cmp.Compare)
	list := make([][]Table, len(runs))
	for i, run := range runs {
		list[i] = byRun[run]
	}
	return list
}

func (d *drawing) level(l Level) {
	all := rows(l.Tables)
	for _, row := range all {
		name := fmt.Sprintf("L%d", l.Number)
		if len(all) > 1 {
			name += fmt.Sprintf(" run %d", row[0].Run)
		}
		size, entries := int64(0), uint64(0)
		mid := d.y + rowHeight/2 + 4
		fmt.Fprintf(d.w, `<text x="%d" y="%d" text-anchor="end" fill="currentColor">%s</text>`, left-6, mid, name)
		fmt.Fprintf(d.w, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="currentColor" fill-opacity="0.05"/>`+"\n", left, d.y+(rowHeight-barHeight)/2, d.inner, barHeight)
		for i := range row {
			d.bar(l.Number, &row[i])
			size += row[i].Size
			entries += row[i].Entries
		}
		fmt.Fprintf(d.w, `<text x="%.1f" y="%d" fill="currentColor">%d × %s, %s</text>`+"\n", left+d.inner+6, mid, len(row), base.FormatBytes(size/int64(len(row))), count(entries))
		d.y += rowHeight
	}
	d.y += levelGap
}

func (d *drawing) bar(level int, t *Table) {
	from, to := d.scale.Span(t)
	x, width := left+from*d.inner, max((to-from)*d.inner, 1)
	fmt.Fprintf(d.w, `<g class="table" data-table="%d"><title>%s</title>`, t.Number, escape(t.describe(level, d.Key)))
	fmt.Fprintf(d.w, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"%s/>`, x, d.y+(rowHeight-barHeight)/2, width, barHeight, d.colour.Colour(t, d.By), outline(width))
	if label := strconv.FormatUint(t.Number, 10); width > float64(8*len(label)+4) {
		fill := "#000"
		if d.colour.light(t, d.By) {
			fill = "#fff"
		}
		fmt.Fprintf(d.w, `<text x="%.1f" y="%d" text-anchor="middle" font-size="11" fill="%s">%s</text>`, x+width/2, d.y+rowHeight/2+4, fill, label)
	}
	fmt.Fprint(d.w, "</g>\n")
}

// outline tells neighbours apart, unless they are so narrow that it would hide
// them.
func outline(width float64) string {
	if width < 4 {
		return ""
	}
	return ` stroke="#fff" stroke-width="1"`
}

// keys writes some of the keys below the bars.
func (d *drawing) keys() {
	if len(d.scale.bounds) == 0 {
		return
	}
	step := d.inner / ticks
	for i := range ticks {
		x := left + float64(i)*step
		key := []rune(d.Key(d.scale.KeyAt(float64(i) / ticks)))
		if most := int(step / 7); len(key) > most {
			key = append(key[:most-1], '…')
		}
		fmt.Fprintf(d.w, `<path d="M%.1f %dv6" stroke="currentColor"/><text x="%.1f" y="%d" font-size="11" fill="currentColor">%s</text>`+"\n", x, d.y, x, d.y+18, escape(string(key)))
	}
	d.y += 24
}

// legend says what the colours mean.
func (d *drawing) legend() {
	const steps, wide = 24, 8
	from, to, what := "0", strconv.Itoa(bitsAtDark)+"+", "filter bits a key; grey: no filter"
	switch d.By {
	case ByFPR:
		from, to, what = fmt.Sprintf("1/%d", ratioAtEnd), strconv.Itoa(ratioAtEnd), "false positives, measured to predicted; grey: not measured"
	case BySize:
		to, what = base.FormatBytes(d.colour.MaxSize), "bytes of the table"
	}
	fmt.Fprintf(d.w, `<text x="%d" y="%d" text-anchor="end" fill="currentColor">%s</text>`, left-6, d.y+11, from)
	for i := range steps {
		fmt.Fprintf(d.w, `<rect x="%d" y="%d" width="%d" height="12" fill="%s"/>`, left+i*wide, d.y, wide, colourAt(float64(i)/(steps-1), d.By))
	}
	fmt.Fprintf(d.w, `<text x="%d" y="%d" fill="currentColor">%s   %s</text>`+"\n", left+steps*wide+6, d.y+11, to, what)
}

// describe returns what is to know of t, in lines.
func (t *Table) describe(level int, key func([]byte) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%06d, L%d run %d\n%s … %s\n%s, %s", t.Number, level, t.Run, key(t.Smallest), key(t.Largest), base.FormatBytes(t.Size), count(t.Entries))
	if t.Tombstones > 0 {
		fmt.Fprintf(&b, ", %d of them deletions", t.Tombstones)
	}
	if t.Filter == "" {
		return b.String() + "\nno filter"
	}
	fmt.Fprintf(&b, "\n%s filter, %.1f bits a key", t.Filter, t.FilterBits)
	if t.PredictedFPR > 0 {
		fmt.Fprintf(&b, "\nfalse positives: predicted %s", base.FormatPercent(t.PredictedFPR))
	}
	if t.Asked > 0 {
		fmt.Fprintf(&b, ", measured %s of %d lookups", base.FormatPercent(t.MeasuredFPR), t.Asked)
	}
	return b.String()
}

// Describe returns what is to know of a table of a level, in lines: what the
// picture shows when the mouse is on it. key is as in Options.
func Describe(level int, t *Table, key func([]byte) string) string {
	if key == nil {
		key = quoted
	}
	return t.describe(level, key)
}

func count(entries uint64) string {
	if entries == 1 {
		return "1 entry"
	}
	return strconv.FormatUint(entries, 10) + " entries"
}

// quoted is the default of Options.Key.
func quoted(key []byte) string {
	// A character takes 10 when it is quoted, at most.
	text := strconv.Quote(string(key[:min(len(key), 4*shortKey)]))
	if utf8.RuneCountInString(text) <= shortKey {
		return text
	}
	return string([]rune(text)[:shortKey-1]) + "…"
}

// escape makes text that may stand in XML: some characters may not, however
// they are written.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r == '\n' || r == ' ' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text))
}

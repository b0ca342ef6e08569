package treepicture

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/svg"
)

// The measures, in pixels.
const (
	defaultWidth = 1200
	left, right  = 72, 190 // of the bars: names and sums of the rows
	rowHeight    = 24
	barHeight    = 18
	barTop       = (rowHeight - barHeight) / 2
	baseLine     = rowHeight/2 + 4 // of the text of a row
	levelGap     = 6
	ticks        = 6
	shortKey     = 40
)

// A drawing is a picture that is not finished yet. It has no style sheet: the page of
// package debug forbids those in what it shows.
type drawing struct {
	Options
	*svg.Drawing
	levels []Level
	scale  *Scale
	colour Range
	inner  float64 // width of the bars
	y      float64
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
		Options: o, levels: slices.SortedFunc(slices.Values(levels), func(a, b Level) int { return cmp.Compare(a.Number, b.Number) }),
		scale: NewScale(levels), colour: RangeOf(levels), inner: float64(o.Width - left - right),
	}
	height := 80.0 // of title, keys and legend
	for _, l := range d.levels {
		if n := len(rows(l.Tables)); n > 0 {
			height += float64(rowHeight*n + levelGap)
		}
	}
	d.Drawing = svg.New(float64(o.Width), height, "tables over the keys, a row for each run",
		`font-family="system-ui, sans-serif" font-size="12" fill="currentColor"`)
	d.title()
	for _, l := range d.levels {
		d.level(l)
	}
	d.keys()
	d.legend()
	_, err := w.Write(d.End())
	return err
}

func (d *drawing) title() {
	d.y = 8
	if d.Title != "" {
		d.Add("<title>%v</title>", d.Title)
		d.Text(left, 20, `font-size="14" font-weight="600"`, d.Title)
		d.y = 32
	}
	if !slices.ContainsFunc(d.levels, func(l Level) bool { return len(l.Tables) > 0 }) {
		d.Text(left, d.y+14, "", "no tables")
	}
}

// rows returns the tables run by run, the newest run first.
func rows(tables []Table) [][]Table {
	byRun := map[int][]Table{}
	for _, t := range tables {
		byRun[t.Run] = append(byRun[t.Run], t)
	}
	list := make([][]Table, 0, len(byRun))
	for _, run := range slices.Sorted(maps.Keys(byRun)) {
		list = append(list, byRun[run])
	}
	return list
}

func (d *drawing) level(l Level) {
	all := rows(l.Tables)
	if len(all) == 0 {
		return
	}
	for _, row := range all {
		name := fmt.Sprintf("L%d", l.Number)
		if len(all) > 1 {
			name += fmt.Sprintf(" run %d", row[0].Run)
		}
		d.row(l.Number, name, row)
	}
	d.y += levelGap
}

func (d *drawing) row(level int, name string, row []Table) {
	size, entries := int64(0), uint64(0)
	d.Add("<g transform=\"translate(0 %v)\">\n", d.y)
	d.Text(left-6, baseLine, `text-anchor="end"`, name)
	d.Add(`<rect x="%v" y="%v" width="%v" height="%v" fill-opacity="0.05"/>`+"\n", left, barTop, d.inner, barHeight)
	for i := range row {
		d.bar(level, &row[i])
		size += row[i].Size
		entries += row[i].Entries
	}
	d.Text(left+d.inner+6, baseLine, "", Sum(len(row), size, entries))
	d.Add("</g>\n")
	d.y += rowHeight
}

func (d *drawing) bar(level int, t *Table) {
	from, to := d.scale.Span(t)
	x, width := left+from*d.inner, max((to-from)*d.inner, 1)
	d.Add(`<g class="table" data-table="%d"><title>%v</title>`, t.Number, t.describe(level, d.Key))
	colour := d.colour.Colour(t, d.By)
	d.Add(`<rect x="%v" y="%v" width="%v" height="%v" fill="%v"%v/>`, x, barTop, width, barHeight, colour, outline(width))
	if label := strconv.FormatUint(t.Number, 10); width > float64(8*len(label)+4) {
		attributes := svg.Markup(`text-anchor="middle" font-size="11" fill="#000"`)
		if colour.dark() {
			attributes = `text-anchor="middle" font-size="11" fill="#fff"`
		}
		d.Text(x+width/2, baseLine, attributes, label)
	}
	d.Add("</g>\n")
}

// outline sets neighbours apart, unless they are so narrow that it would hide them.
func outline(width float64) svg.Markup {
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
		d.Add(`<path d="M%v %vv6" stroke="currentColor"/>`, x, d.y)
		d.Text(x, d.y+18, `font-size="11"`, string(key))
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
	d.Text(left-6, d.y+11, `text-anchor="end"`, from)
	for i := range steps {
		d.Add(`<rect x="%v" y="%v" width="%v" height="12" fill="%v"/>`, left+i*wide, d.y, wide, colourAt(float64(i)/(steps-1), d.By))
	}
	d.Text(left+steps*wide+6, d.y+11, "", to+"   "+what)
}

// describe returns what is to know of t, in lines.
func (t *Table) describe(level int, key func([]byte) string) string {
	return fmt.Sprintf("#%06d, L%d run %d\n%s", t.Number, level, t.Run, About(t, key))
}

// About returns what is to know of a table wherever it stands, in lines. key is
// as in Options.
func About(t *Table, key func([]byte) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s … %s\n%s, %s", key(t.Smallest), key(t.Largest), base.FormatBytes(t.Size), count(t.Entries))
	if t.Tombstones > 0 {
		fmt.Fprintf(&b, ", %d of them deletions", t.Tombstones)
	}
	if t.Filter == "" {
		return b.String() + "\nno filter"
	}
	fmt.Fprintf(&b, "\nfilter: %s, %.1f bits a key", t.Filter, t.FilterBits)
	if t.PredictedFPR > 0 {
		fmt.Fprintf(&b, "\nfalse positives: predicted %s", base.FormatPercent(t.PredictedFPR))
	}
	if t.Asked > 0 {
		fmt.Fprintf(&b, ", measured %s of %d lookups", base.FormatPercent(t.MeasuredFPR), t.Asked)
	}
	return b.String()
}

// Sum returns what stands behind a row: its tables, bytes and entries.
func Sum(tables int, size int64, entries uint64) string {
	many := strconv.FormatUint(entries, 10)
	if entries >= 1e4 {
		many = svg.Short(float64(entries))
	}
	return fmt.Sprintf("%d: %s, %s entries", tables, base.FormatBytes(size), many)
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

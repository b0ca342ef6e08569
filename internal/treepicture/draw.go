package treepicture

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/quoting"
	"github.com/shaledb/shale/internal/svg"
)

// The measures, in pixels.
const (
	defaultWidth = 1200
	narrow       = 640     // below this there is no room for sums
	left, right  = 88, 236 // of the bars: names and sums of the rows; long names take more
	letter       = 8       // the width of a character at most, as far as names have it
	rowHeight    = 24
	barHeight    = 18
	barTop       = (rowHeight - barHeight) / 2
	baseLine     = rowHeight/2 + 4 // of the text of a row
	levelGap     = 6
	thin         = 8  // a bar of a width below this is of class thin
	outlined     = 4  // and of one below this has no outline, which would hide it
	ticks        = 6  // parts of the width with a key at their ends; a narrow picture has only the first and the last key
	shortKey     = 48 // characters of a key
)

// inMemory is the level of Options.Memory.
const inMemory = -1

// A drawing is a picture that is not finished yet. It has no style sheet: the page of
// package debug forbids those in what it shows.
type drawing struct {
	Options
	*svg.Drawing
	levels  []Level
	scale   *scale
	colours colours
	narrow  bool
	left    float64 // of the bars
	inner   float64 // width of the bars
	y       float64
}

// Draw writes the picture of levels as an SVG.
func Draw(w io.Writer, levels []Level, o Options) error {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	if o.Key == nil {
		o.Key = func(key []byte) string { return quoting.Short(key, shortKey) }
	}
	if o.Memory != nil && !slices.ContainsFunc(levels, func(l Level) bool { return len(l.Tables) > 0 }) {
		levels = []Level{{inMemory, []Table{*o.Memory}}}
	}
	d := &drawing{
		Options: o, levels: slices.SortedFunc(slices.Values(levels), func(a, b Level) int { return cmp.Compare(a.Number, b.Number) }),
		scale: newScale(levels), colours: coloursOf(levels), narrow: o.Width < narrow, left: left,
	}
	height := 28.0
	switch {
	case len(d.scale.bounds) > 0 && d.levels[0].Number == inMemory:
		height = 48 // of keys
	case len(d.scale.bounds) > 0:
		height = 80 // of keys and legend
	}
	for _, l := range d.levels {
		all := rows(l.Tables)
		if n := len(all); n > 0 {
			height += float64(rowHeight*n + levelGap)
		}
		for _, row := range all {
			d.left = max(d.left, float64(letter*len(nameOf(l.Number, row, len(all)))+6))
		}
	}
	d.Width = max(d.Width, int(d.left)+200)
	d.inner = float64(d.Width) - d.left - right
	if d.narrow {
		d.inner = float64(d.Width) - d.left - 4
	}
	d.Drawing = svg.New(float64(d.Width), height, "tables over the keys, a row for each run",
		`font-family="system-ui, sans-serif" font-size="12" fill="currentColor"`)
	d.y = 8
	if len(d.scale.bounds) == 0 {
		d.Text(0, d.y+14, "", "no tables, and no keys in memory")
		_, err := w.Write(d.End())
		return err
	}
	for _, l := range d.levels {
		d.level(l)
	}
	d.Add("<g class=\"foot\" transform=\"translate(0 %v)\">\n", d.y)
	d.keys()
	if d.levels[0].Number != inMemory { // its one colour means nothing
		d.legend()
	}
	d.Add("</g>\n")
	_, err := w.Write(d.End())
	return err
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
		d.row(l.Number, nameOf(l.Number, row, len(all)), row)
	}
	d.y += levelGap
}

// nameOf returns the name of a row, one of n of its level.
func nameOf(level int, row []Table, n int) string {
	switch {
	case level == inMemory:
		return "memtables"
	case level == 0 && len(row) == 1: // its runs are flushes, and tables have their names in explanations
		return fmt.Sprintf("L0 #%06d", row[0].Number)
	case n > 1:
		return fmt.Sprintf("L%d run %d", level, row[0].Run)
	}
	return fmt.Sprintf("L%d", level)
}

func (d *drawing) row(level int, name string, row []Table) {
	var sum sum
	d.Add("<g class=\"row\" transform=\"translate(0 %v)\">\n", d.y)
	d.Text(d.left-6, baseLine, `text-anchor="end"`, name)
	d.Add(`<rect x="%v" y="%v" width="%v" height="%v" fill-opacity="0.05"/>`+"\n", d.left, barTop, d.inner, barHeight)
	for i := range row {
		d.bar(level, &row[i])
		sum.add(&row[i])
	}
	if !d.narrow && level != inMemory {
		d.Text(d.left+d.inner+6, baseLine, "", sum.String())
	}
	d.Add("</g>\n")
	d.y += rowHeight
}

func (d *drawing) bar(level int, t *Table) {
	from, to := d.scale.span(t)
	x, width := d.left+from*d.inner, max((to-from)*d.inner, 1)
	class, outline := svg.Markup("table"), svg.Markup("")
	if width < thin {
		class = "table thin"
	}
	if width >= outlined {
		outline = ` stroke="#fff" stroke-width="1"`
	}
	d.Add(`<g class="%v" data-table="%v"`, class, t.Number)
	d.Add(`><title>%v</title>`, t.describe(level, d.Key))
	colour, label := d.colours.of(t, d.By), strconv.FormatUint(t.Number, 10)
	if level == inMemory {
		colour, label = memory, plural(base.FormatNumber(t.Entries), "entry", "entries")+" in memory"
	}
	d.Add(`<rect x="%v" y="%v" width="%v" height="%v" fill="%v"%v/>`, x, barTop, width, barHeight, colour, outline)
	if width > float64(8*len(label)+4) {
		attributes := svg.Markup(`text-anchor="middle" font-size="11" fill="#000"`)
		if colour.dark() {
			attributes = `text-anchor="middle" font-size="11" fill="#fff"`
		}
		d.Text(x+width/2, baseLine, attributes, label)
	}
	d.Add("</g>\n")
}

// keys writes some of the bounds of tables below the bars, each at its place.
func (d *drawing) keys() {
	list, most := d.scale.ticks(ticks), int(d.inner/ticks/7)
	if d.narrow {
		list, most = slices.Compact([]int{0, len(d.scale.bounds) - 1}), int(d.inner/2/7)
	}
	for _, i := range list {
		x := d.left + d.scale.at[2*i]*d.inner
		key := []rune(d.Key(d.scale.bounds[i]))
		if len(key) > most {
			key = append(key[:most-1], '…')
		}
		d.Add(`<path d="M%v 0v6" stroke="currentColor"/>`, x)
		attributes := svg.Markup(`font-size="11"`)
		if d.narrow && i > 0 {
			attributes = `font-size="11" text-anchor="end"`
		}
		d.Text(x, 18, attributes, string(key))
	}
}

// legend says what the colours mean.
func (d *drawing) legend() {
	const steps, wide = 24, 8
	from, to, what := "0", strconv.Itoa(bitsAtDark)+" and more", "filter bits a key; grey: no filter"
	switch d.By {
	case ByFPR:
		from, to, what = fmt.Sprintf("1/%d", ratioAtEnd), fmt.Sprintf("%d ×", ratioAtEnd), "false positives, measured to predicted; grey: not asked"
	case BySize:
		to, what = base.FormatBytes(d.colours.maxSize), "bytes of the table"
	}
	d.Add("<g class=\"legend\">\n")
	x := d.left
	if d.narrow {
		x = 4
	}
	d.Text(x, 40, "", what)
	d.Text(d.left-6, 57, `text-anchor="end"`, from)
	for i := range steps {
		d.Add(`<rect x="%v" y="46" width="%v" height="12" fill="%v"/>`, d.left+float64(i*wide), wide, colourAt(float64(i)/(steps-1), d.By))
	}
	d.Text(d.left+steps*wide+6, 57, "", to)
	d.Add("</g>\n")
}

// describe returns what is to know of t, in lines.
func (t *Table) describe(level int, key func([]byte) string) string {
	var b strings.Builder
	name := fmt.Sprintf("#%06d, L%d", t.Number, level)
	if level == inMemory {
		name = "memtables"
	}
	fmt.Fprintf(&b, "%s\n%s … %s\n%s, %s", name, key(t.Smallest), key(t.Largest), base.FormatBytes(t.Size), plural(strconv.FormatUint(t.Entries, 10), "entry", "entries"))
	if t.Tombstones > 0 {
		fmt.Fprintf(&b, ", %d of them deletions", t.Tombstones)
	}
	switch {
	case level == inMemory:
		return b.String() + "\nnot in a table yet"
	case t.Filter == "":
		return b.String() + "\nno filter"
	}
	fmt.Fprintf(&b, "\nfilter: %s, %.1f bits a key", t.Filter, t.FilterBits)
	if t.PredictedFPR > 0 {
		fmt.Fprintf(&b, "\nfalse positives: predicted %s", base.FormatPercent(t.PredictedFPR))
	}
	if t.Asked > 0 {
		fmt.Fprintf(&b, ", measured %s of %s", base.FormatPercent(t.MeasuredFPR), plural(strconv.FormatUint(t.Asked, 10), "lookup", "lookups"))
	}
	return b.String()
}

// A sum is what stands behind a row: its tables, bytes and entries.
type sum struct{ tables, size, entries int64 }

func (s *sum) add(t *Table) {
	s.tables++
	s.size += t.Size
	s.entries += int64(t.Entries)
}

func (s sum) String() string {
	entries := strconv.FormatInt(s.entries, 10)
	if s.entries >= 1e4 {
		entries = svg.Short(float64(s.entries))
	}
	return fmt.Sprintf("%s, %s, %s", plural(strconv.FormatInt(s.tables, 10), "table", "tables"), base.FormatBytes(s.size), plural(entries, "entry", "entries"))
}

// plural returns a number with the word for that many.
func plural(n, one, more string) string {
	if n == "1" {
		return n + " " + one
	}
	return n + " " + more
}

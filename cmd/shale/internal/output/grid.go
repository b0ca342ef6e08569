package output

import (
	"slices"
	"strings"
)

// A Grid is a table for people. As text its columns are as wide as necessary, with two spaces
// between them.
//
// For example, levelsCommand makes one of
//
//	level      runs  tables     size  entries
//	memtables                    0 B        0
//	L6            1       1  1.2 MiB   50,442
//
// In the other modes the same rows are a Listing. A table has few rows, so it is held as a whole.
type Grid struct {
	titles []string
	right  []bool // for each column: it is aligned to the right, like numbers
	rows   [][]Cell
	most   int // only the last rows, at most this many; 0: all
}

// NewGrid returns a grid with a row of titles. If a title begins with >, its column is aligned to
// the right.
//
// Titles are lower case, and become names of fields in JSON and CSV.
func NewGrid(titles ...string) *Grid {
	g := &Grid{right: make([]bool, len(titles))}
	for i, t := range titles {
		name, right := strings.CutPrefix(t, ">")
		g.titles, g.right[i] = append(g.titles, name), right
	}
	return g
}

// Last makes g keep only its last n rows. 0: it keeps all.
//
// The log of a large store has millions of operations, of which --last shows a few.
func (g *Grid) Last(n int) { g.most = n }

// Row adds a row. A field is a text, a number, or a Cell, which has both a text for people and a
// value for programs.
func (g *Grid) Row(values ...any) {
	cells := make([]Cell, len(values))
	for i, v := range values {
		cells[i] = cellOf(v, g.right[i])
	}
	if g.most > 0 && len(g.rows) >= 2*g.most {
		g.rows = append(g.rows[:0], g.rows[g.most:]...)
	}
	g.rows = append(g.rows, cells)
}

// Show prints g in the mode of p.
//
// It writes to Out, and does not flush.
func (p *Printer) Show(g *Grid) error {
	if g.most > 0 {
		g.rows = g.rows[max(0, len(g.rows)-g.most):]
	}
	if p.AsText() {
		return g.write(p)
	}
	l := p.List(g.titles...)
	for _, row := range g.rows {
		if err := l.Row(row...); err != nil {
			return err
		}
	}
	return l.End()
}

// write prints g as text. If it is too wide for the terminal, keys are cut further, and then columns are left out that
// have nothing in any row. If that is not enough, each row becomes a few lines: a number is never cut.
func (g *Grid) write(p *Printer) error {
	width := 0
	if p.Columns != nil {
		width = p.Columns()
	}
	texts := g.texts(p.Display.Format(), shortKey)
	fits := func() bool { return width == 0 || widthOf(texts) <= width }
	for _, most := range []int{24, 16, 12} {
		if !fits() {
			texts = g.texts(p.Display.Format(), most)
		}
	}
	if !fits() {
		g = g.withoutEmpty(texts)
		texts = g.texts(p.Display.Format(), 12)
	}
	write := g.appendColumns
	if !fits() {
		write = func(out []byte, texts [][]string, colours bool) []byte {
			return g.appendLines(out, texts, width, colours)
		}
	}
	_, err := p.Out.Write(write(nil, texts, p.Colours))
	return err
}

// withoutEmpty returns g without the columns that have nothing in any row.
func (g *Grid) withoutEmpty(texts [][]string) *Grid {
	var less Grid
	less.rows = make([][]Cell, len(g.rows))
	for i := range g.titles {
		empty := !slices.ContainsFunc(texts[1:], func(row []string) bool { return row[i] != "" && row[i] != "-" })
		if empty {
			continue
		}
		less.titles, less.right = append(less.titles, g.titles[i]), append(less.right, g.right[i])
		for n, cells := range g.rows {
			less.rows[n] = append(less.rows[n], cells[i])
		}
	}
	return &less
}

// texts returns the titles and the rows as text, with keys and values in format f, and keys of at most that many
// characters.
func (g *Grid) texts(f Format, most int) [][]string {
	rows := [][]string{g.titles}
	for _, cells := range g.rows {
		texts := make([]string, len(cells))
		for i, c := range cells {
			if c.cut != nil {
				c.Text = c.cut(most)
			}
			texts[i] = c.plain(f)
		}
		rows = append(rows, texts)
	}
	return rows
}

// gap is the space between two columns.
const gap = "  "

// widthsOf returns the width of each column, which is that of its widest text. Widths are columns of a terminal, and not
// bytes or characters.
func widthsOf(texts [][]string) []int {
	widths := make([]int, len(texts[0]))
	for _, row := range texts {
		for i, text := range row {
			widths[i] = max(widths[i], columns(text))
		}
	}
	return widths
}

// widthOf returns the width of a table.
func widthOf(texts [][]string) (all int) {
	for _, w := range widthsOf(texts) {
		all += w + len(gap)
	}
	return all - len(gap)
}

// appendColumns appends a line for each row. No line ends in spaces.
func (g *Grid) appendColumns(out []byte, texts [][]string, colours bool) []byte {
	widths := widthsOf(texts)
	for n, row := range texts {
		end := len(out)
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-columns(text))
			if g.right[i] {
				out = append(out, pad...)
			}
			if out = g.appendText(out, n, i, text, colours); text != "" {
				end = len(out)
			}
			if !g.right[i] {
				out = append(out, pad...)
			}
			out = append(out, gap...)
		}
		out = append(out[:end], '\n')
	}
	return out
}

// appendLines appends a line for each cell that has a text, with its title in front, and an empty line between two rows. A
// sentence that is wider than the terminal becomes several lines. A key does not: it could not be read, nor copied.
func (g *Grid) appendLines(out []byte, texts [][]string, terminal int, colours bool) []byte {
	width := 0
	for _, title := range g.titles {
		width = max(width, columns(title))
	}
	for n, row := range texts[1:] {
		if n > 0 {
			out = append(out, '\n')
		}
		for i, text := range row {
			if text != "" {
				if indent := width + len(gap); g.rows[n][i].cut == nil && g.rows[n][i].bytes == nil && indent+columns(text) > terminal {
					text = strings.TrimSuffix(WrapBehind(indent, text, terminal), "\n")
				}
				out = append(append(out, g.titles[i]...), strings.Repeat(" ", width-columns(g.titles[i]))+gap...)
				out = append(g.appendText(out, n+1, i, text, colours), '\n')
			}
		}
	}
	return out
}

// appendText appends the text of a cell, in its colour. Row 0 is that of the titles.
func (g *Grid) appendText(out []byte, row, column int, text string, colours bool) []byte {
	if row == 0 || !colours {
		return append(out, text...)
	}
	return append(out, g.rows[row-1][column].colour.Of(text)...)
}

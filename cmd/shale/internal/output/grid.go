package output

import (
	"io"
	"strings"
)

// A Grid is a table for people. As text its columns are as wide as necessary, with two spaces
// between them. No line ends in spaces.
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
		return g.write(p.Out, p.Display.Format())
	}
	l := p.List(g.titles...)
	for _, row := range g.rows {
		if err := l.Row(row...); err != nil {
			return err
		}
	}
	return l.End()
}

// write prints g as text, with keys and values in format f. Each column is as wide as the widest text in
// it; widths are columns of a terminal, and not bytes or characters.
func (g *Grid) write(w io.Writer, f Format) error {
	rows := [][]string{g.titles}
	for _, cells := range g.rows {
		texts := make([]string, len(cells))
		for i, c := range cells {
			texts[i] = c.plain(f)
		}
		rows = append(rows, texts)
	}
	widths := make([]int, len(g.titles))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], columns(text))
		}
	}
	var out []byte
	for _, row := range rows {
		var line string
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-columns(text))
			if g.right[i] {
				line += pad + text + "  "
			} else {
				line += text + pad + "  "
			}
		}
		out = append(append(out, strings.TrimRight(line, " ")...), '\n')
	}
	_, err := w.Write(out)
	return err
}

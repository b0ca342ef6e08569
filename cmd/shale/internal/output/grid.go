package output

import (
	"io"
	"strings"
)

// A Grid is a table to read. As text its columns are as wide as they need to
// be, two spaces apart; no line ends in spaces.
type Grid struct {
	titles []string
	right  []bool // of each column: flush right, as numbers are
	rows   [][]Cell
}

// NewGrid returns a grid with a row of titles. A title that begins with > is of
// a column that is flush right.
func NewGrid(titles ...string) *Grid {
	g := &Grid{right: make([]bool, len(titles))}
	for i, t := range titles {
		name, right := strings.CutPrefix(t, ">")
		g.titles, g.right[i] = append(g.titles, name), right
	}
	return g
}

// Row adds a row: of text, numbers, and cells, which have a value for programs
// next to the text for people.
func (g *Grid) Row(values ...any) {
	cells := make([]Cell, len(values))
	for i, v := range values {
		cells[i] = cellOf(v, g.right[i])
	}
	g.rows = append(g.rows, cells)
}

// Show prints g in the mode of p.
func (p *Printer) Show(g *Grid) error {
	l := p.List(p.Format, g.titles...)
	l.right = g.right
	if l.show == ShowText || l.show == ShowHex {
		return g.write(p.Out, l.format)
	}
	for _, row := range g.rows {
		if err := l.Row(row...); err != nil {
			return err
		}
	}
	return l.End()
}

// write prints g as text, with keys and values in format f.
func (g *Grid) write(w io.Writer, f Format) error {
	rows := [][]string{g.titles}
	for _, row := range g.rows {
		texts := make([]string, len(row))
		for i, c := range row {
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
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-columns(text))
			if g.right[i] {
				line.WriteString(pad + text + "  ")
			} else {
				line.WriteString(text + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

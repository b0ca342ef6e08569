package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// A grid is a table to read. Its columns are as wide as they need to be, two
// spaces apart; no line ends in spaces.
type grid struct {
	right []bool // of each column: flush right, as numbers are
	rows  [][]string
}

// newGrid returns a grid with a row of titles. A title that begins with > is of
// a column that is flush right.
func newGrid(titles ...string) *grid {
	g := &grid{right: make([]bool, len(titles))}
	for i, t := range titles {
		titles[i], g.right[i] = strings.CutPrefix(t, ">")
	}
	g.row(titles...)
	return g
}

func (g *grid) row(cells ...string) { g.rows = append(g.rows, cells) }

// show prints g.
func (s *session) show(g *grid) error { return g.write(s.out) }

func (g *grid) write(w io.Writer) error {
	widths := make([]int, len(g.right))
	for _, row := range g.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range g.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if g.right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

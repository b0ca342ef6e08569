package output

import (
	"slices"
	"strings"
)

// leastColumn is the least width of a column that is cut.
const leastColumn = 6

// addBox adds a row of a box. It holds the row until the widths of the columns are known.
func (l *Listing) addBox(cells []Cell) {
	texts := textsOf(cells, l.format)
	if l.box != nil {
		l.addBoxRow(texts)
	} else if l.held = append(l.held, texts); len(l.held) == maxHeld {
		l.beginBox()
	}
}

// beginBox sets the widths, and adds the titles and the rows held so far.
func (l *Listing) beginBox() {
	l.box = newLayout(l.right, l.titles, l.held)
	if l.width > 0 {
		l.box.narrow(l.width - 1 - 3*len(l.titles))
	}
	l.addRule("┌─", "─┬─", "─┐\n")
	l.addBoxRow(l.titles)
	l.addRule("├─", "─┼─", "─┤\n")
	for _, texts := range l.held {
		_ = l.write() // one row at a time, because values may be large; the writer keeps an error
		l.addBoxRow(texts)
	}
	l.held = nil
}

func (l *Listing) endBox() {
	if l.box == nil {
		l.beginBox()
	}
	l.addRule("└─", "─┴─", "─┘\n")
}

func (l *Listing) addBoxRow(texts []string) {
	l.line = append(l.box.row(append(l.line, "│ "...), " │ ", texts), " │\n"...)
}

func (l *Listing) addRule(left, between, right string) {
	lines := make([]string, len(l.box.widths))
	for i, w := range l.box.widths {
		lines[i] = strings.Repeat("─", w)
	}
	l.line = append(l.line, left+strings.Join(lines, between)+right...)
}

// narrow makes the widest columns narrower until all columns fit into total.
func (l *layout) narrow(total int) {
	sum := 0
	for _, w := range l.widths {
		sum += w
	}
	for ; sum > total; sum-- {
		widest := slices.Index(l.widths, slices.Max(l.widths))
		if l.widths[widest] <= leastColumn {
			return
		}
		l.widths[widest]--
	}
}

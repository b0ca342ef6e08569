package output

import (
	"slices"
	"strings"
)

// leastColumn is the least width of a column that is cut.
const leastColumn = 6

// boxRow prints a row of a box. It holds the row until the widths of the columns are known.
func (l *Listing) boxRow(cells []Cell) error {
	if l.boxed != nil {
		return l.writeBoxRow(cells)
	}
	kept := make([]Cell, len(cells))
	for i, c := range cells {
		kept[i] = Cell{Text: c.plain(l.format)}
	}
	l.held = append(l.held, kept)
	if len(l.held) < maxHeld {
		return nil
	}
	return l.beginBox()
}

// beginBox sets the widths, and prints the titles and the rows held so far.
func (l *Listing) beginBox() error {
	l.boxed = make([]int, len(l.titles))
	for i, t := range l.titles {
		l.boxed[i] = columns(t)
		for _, row := range l.held {
			l.boxed[i] = max(l.boxed[i], columns(row[i].Text))
		}
	}
	if l.width > 0 {
		narrow(l.boxed, l.width-1-3*len(l.boxed))
	}
	titles := make([]Cell, len(l.titles))
	for i, t := range l.titles {
		titles[i].Text = t
	}
	if err := l.rule("┌", "┬", "┐"); err != nil {
		return err
	}
	if err := l.writeBoxRow(titles); err != nil {
		return err
	}
	if err := l.rule("├", "┼", "┤"); err != nil {
		return err
	}
	for _, row := range l.held {
		if err := l.writeBoxRow(row); err != nil {
			return err
		}
	}
	l.held = nil
	return nil
}

// narrow makes the widest columns narrower until all columns fit into total.
func narrow(widths []int, total int) {
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for ; sum > total; sum-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= leastColumn {
			return
		}
		widths[widest]--
	}
}

func (l *Listing) rule(left, between, right string) error {
	parts := make([]string, len(l.boxed))
	for i, w := range l.boxed {
		parts[i] = strings.Repeat("─", w+2)
	}
	_, err := l.w.WriteString(left + strings.Join(parts, between) + right + "\n")
	return err
}

func (l *Listing) writeBoxRow(cells []Cell) error {
	var b strings.Builder
	for i, c := range cells {
		text := cut(c.plain(l.format), l.boxed[i])
		pad := strings.Repeat(" ", l.boxed[i]-columns(text))
		if l.right[i] {
			b.WriteString("│ " + pad + text + " ")
		} else {
			b.WriteString("│ " + text + pad + " ")
		}
	}
	_, err := l.w.WriteString(b.String() + "│\n")
	return err
}

func (l *Listing) endBox() error {
	if l.boxed == nil {
		if err := l.beginBox(); err != nil {
			return err
		}
	}
	return l.rule("└", "┴", "┘")
}

package output

import "strings"

// A layout has the columns of a table for people.
type layout struct {
	widths []int
	right  []bool // the column is aligned to the right, like numbers
}

// newLayout returns columns that are as wide as the widest text in them.
func newLayout(right []bool, titles []string, rows [][]string) *layout {
	l := &layout{make([]int, len(titles)), right}
	for i, title := range titles {
		l.widths[i] = columns(title)
		for _, row := range rows {
			l.widths[i] = max(l.widths[i], columns(row[i]))
		}
	}
	return l
}

// row appends a row to dst. A text that is too wide for its column is cut.
func (l *layout) row(dst []byte, between string, texts []string) []byte {
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, between...)
		}
		text = cut(text, l.widths[i])
		pad := strings.Repeat(" ", l.widths[i]-columns(text))
		if l.right[i] {
			dst = append(append(dst, pad...), text...)
		} else {
			dst = append(append(dst, text...), pad...)
		}
	}
	return dst
}

// textsOf returns the texts of cells for people, with keys and values in format f.
func textsOf(cells []Cell, f Format) []string {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = c.plain(f)
	}
	return texts
}

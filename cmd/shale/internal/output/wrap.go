package output

import "strings"

// TextWidth returns the width for text. It is the width of the terminal, with a limit, because
// long lines are hard to read.
//
// Without a terminal the text is as wide as on a large one.
func (p *Printer) TextWidth() int {
	const most, least = 100, 20
	if p.Columns != nil && p.Columns() > 0 {
		return min(max(p.Columns(), least), most)
	}
	return most
}

// Wrap returns text in lines of at most width columns. An empty line ends a paragraph; a line that
// begins with "- " is an item of a list.
//
// The texts of help are written in lines of any length, and wrapped for the terminal that shows
// them. A word that is longer than a line has a line of its own.
func Wrap(text string, width int) string {
	var b strings.Builder
	at, indent := 0, ""
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if item := strings.HasPrefix(line, "- "); item || line == "" {
			if at > 0 {
				b.WriteByte('\n')
			}
			at, indent = 0, "  "
			if !item {
				b.WriteByte('\n')
				indent = ""
			}
		}
		for word := range strings.FieldsSeq(line) {
			switch n := columns(word); {
			case at == 0:
				at = n
			case at+1+n > width:
				b.WriteString("\n" + indent)
				at = len(indent) + n
			default:
				b.WriteByte(' ')
				at += 1 + n
			}
			b.WriteString(word)
		}
	}
	return b.String() + "\n"
}

// WrapBehind is Wrap for a text whose first line has an indent already. The other lines get one.
func WrapBehind(indent int, text string, width int) string {
	wrapped := strings.TrimSuffix(Wrap(text, max(20, width-indent)), "\n")
	return strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", indent)) + "\n"
}

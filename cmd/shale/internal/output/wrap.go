package output

import "strings"

// TextWidth returns the width for text. It is the width of the terminal, with a limit, because
// long lines are hard to read.
func (p *Printer) TextWidth() int {
	const most, least = 100, 20
	if w := p.Width(); w > 0 {
		return min(max(w, least), most)
	}
	return most
}

// Wrap returns text in lines of at most width columns. The first one begins with lead, and
// the others with as many spaces. An empty line ends a paragraph; a line that begins with
// "- " is an item of a list.
func Wrap(lead, text string, width int) string {
	var b strings.Builder
	for line := range strings.SplitSeq(joined(text), "\n") {
		indent := strings.Repeat(" ", columns(lead))
		if strings.HasPrefix(line, "- ") {
			indent += "  "
		}
		b.WriteString(lead)
		at := columns(lead)
		for i, word := range strings.Fields(line) {
			switch n := columns(word); {
			case i == 0:
				at += n
			case at+1+n > width:
				b.WriteString("\n" + indent)
				at = columns(indent) + n
			default:
				b.WriteByte(' ')
				at += 1 + n
			}
			b.WriteString(word)
		}
		b.WriteByte('\n')
		lead = indent
		if strings.HasPrefix(line, "- ") {
			lead = indent[2:]
		}
	}
	return b.String()
}

// joined returns text with each paragraph and each item of a list in one line.
func joined(text string) string {
	var b strings.Builder
	before := ""
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		switch {
		case i == 0:
		case line == "" || before == "" || strings.HasPrefix(line, "- "):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(line)
		before = line
	}
	return b.String()
}

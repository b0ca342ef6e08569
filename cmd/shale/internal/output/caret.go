package output

import "strings"

// maxShown is how many columns of a line a complaint shows where the width
// of the terminal is not known.
const maxShown = 100

// PointAt returns line behind lead, and below it a caret under its bytes from:to.
// Of a line that does not fit into width columns it is a part.
func PointAt(lead, line string, from, to, width int) string {
	if width <= 0 {
		width = maxShown
	}
	line = strings.Map(func(r rune) rune {
		if r == '\t' || r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, line)
	to = min(to, len(line))
	from = min(from, to)
	before, blamed, after := Seen(line[:from]), Seen(line[from:to]), Seen(line[to:])
	room := max(width-columns(lead)-1, 20)
	before = cutLeft(before, room/2)
	room -= columns(before)
	if columns(blamed) > room {
		blamed, after = cut(blamed, max(room, 1)), ""
	}
	after = cut(after, max(room-columns(blamed), 1))
	indent := strings.Repeat(" ", columns(lead+before))
	return strings.TrimRight(lead+before+blamed+after, " ") + "\n" + indent + strings.Repeat("^", max(columns(blamed), 1))
}

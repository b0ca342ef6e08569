package output

import "strings"

// maxShown is the number of columns of a line that an error message shows if the width of the
// terminal is unknown.
const maxShown = 100

// PointAt returns lead and line, and below them carets under the bytes from:to of line. If line
// does not fit into width columns, it returns only a part of it.
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

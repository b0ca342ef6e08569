package output

import (
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// terminal is one that gives characters of ambiguous width one column, as most do
// outside East Asia.
var terminal = &runewidth.Condition{StrictEmojiNeutral: true}

// columns returns how many columns of a terminal text takes: characters of East
// Asia take two, marks that stand on another character none.
func columns(text string) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return terminal.StringWidth(text)
		}
	}
	return len(text)
}

// cut returns text, or as much of its beginning as fits into this many columns with
// a sign that more was there.
func cut(text string, most int) string { return terminal.Truncate(text, most, "…") }

// cutLeft does that from the end of text.
func cutLeft(text string, most int) string {
	if most = columns(text) - most; most <= 0 {
		return text
	}
	return terminal.TruncateLeft(text, most+1, "…")
}

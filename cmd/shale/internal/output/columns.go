package output

import (
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// terminal is for terminals that give one column to characters of ambiguous width, as most do
// outside East Asia.
//
// On a terminal that gives such characters two columns, a table with them is not aligned. That is
// all.
var terminal = &runewidth.Condition{StrictEmojiNeutral: true}

// columns returns the number of columns that text takes on a terminal. Characters of East Asia
// take two columns. Combining marks take none.
//
// ASCII, which most texts are, needs no table of characters.
func columns(text string) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return terminal.StringWidth(text)
		}
	}
	return len(text)
}

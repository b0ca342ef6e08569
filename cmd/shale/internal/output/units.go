package output

import (
	"time"

	"github.com/shaledb/shale/internal/base"
)

// Number returns n with commas between the thousands.
func Number[N ~int | ~int64 | ~uint64](n N) string { return base.FormatNumber(uint64(n)) }

// Plural returns n and the word thing, in the plural unless n is 1.
//
// It is for words that take an s: table, byte, line. Entries has the one that does not.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}

// Since returns the time since begin as text.
func Since(begin time.Time) string { return base.FormatDuration(time.Since(begin)) }

// Entries returns n and the word entry or entries.
func Entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return Number(n) + " entries"
}

// WasWere returns was or were, for n things.
func WasWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

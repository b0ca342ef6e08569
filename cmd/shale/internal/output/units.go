package output

import (
	"fmt"
	"strconv"
	"time"
)

// Number returns n with commas between the thousands.
func Number[N ~int | ~int64 | ~uint64](n N) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural returns n and the word thing, in the plural unless n is 1.
//
// It is for words that take an s: table, byte, line. Entries has the one that does not.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}

// Took returns a short duration as text. Duration.String would show too many digits, or for
// nanoseconds too few.
//
// For example 850.0 µs, 12.34 ms and 3.21 s.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// Since returns the time since begin as text.
func Since(begin time.Time) string { return Took(time.Since(begin)) }

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

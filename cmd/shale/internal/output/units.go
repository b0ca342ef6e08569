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

// Plural returns n things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}

// Took returns a short time, of which a Duration would show too many digits, or
// in nanoseconds too few.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func Since(begin time.Time) time.Duration { return RoundTime(time.Since(begin)) }

func RoundTime(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// Rate returns how many a second n things in so much time are.
func Rate(n int, took time.Duration) string {
	return Number(int(float64(n) / max(took.Seconds(), 1e-6)))
}

// Entries returns n entries.
func Entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return Number(n) + " entries"
}

// WasWere is what happened to n things.
func WasWere[N int | uint64](n N) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

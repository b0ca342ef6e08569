package main

import (
	"fmt"
	"strconv"
	"time"
)

// number returns n with commas between the thousands.
func number[N ~int | ~int64 | ~uint64](n N) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural returns n things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// took returns a short time, of which a Duration would show too many digits, or
// in nanoseconds too few.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func since(begin time.Time) time.Duration { return roundTime(time.Since(begin)) }

func roundTime(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// rate returns how many a second n things in so much time are.
func rate(n int, took time.Duration) string {
	return number(int(float64(n) / max(took.Seconds(), 1e-6)))
}

// entries returns n entries.
func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return number(n) + " entries"
}

// wasWere is what happened to n things.
func wasWere[N int | uint64](n N) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

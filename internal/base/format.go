package base

import (
	"fmt"
	"strconv"
	"time"
)

// FormatBytes formats n in the largest binary unit in which it is at least 1.
func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// FormatNumber returns n with commas between the thousands.
func FormatNumber(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// FormatDuration formats d with three digits, in the largest unit in which it is at least 1, up to
// seconds. From two minutes up it has two units.
//
// For example 971 ns, 42.3 µs, 583 ms, 1.43 s, 2 min 5 s and 1 h 12 min. Duration.String would show up to
// ten digits.
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + FormatDuration(-d)
	}
	digits := time.Duration(1) // what is left of three digits
	for d/digits >= 1000 {
		digits *= 10
	}
	switch short := d.Round(digits); {
	case d == 0:
		return "0 s"
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case short < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case short < time.Millisecond:
		return inUnit(short, time.Microsecond) + " µs"
	case short < time.Second:
		return inUnit(short, time.Millisecond) + " ms"
	default:
		return inUnit(short, time.Second) + " s"
	}
}

// inUnit returns the number of units, without zeros at its end.
func inUnit(d, unit time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64)
}

// FormatPercent formats a share, from 0 to 1, as a percentage. What is smaller than a millionth is only said to be: nobody
// can tell 1e-12 from 1e-20 at a glance, and nobody needs to.
func FormatPercent(p float64) string {
	if 0 < p && p < 1e-6 {
		return "<0.0001 %"
	}
	return fmt.Sprintf("%.3g %%", 100*p)
}

package base

import "fmt"

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

// FormatPercent formats a share, from 0 to 1, as a percentage.
func FormatPercent(p float64) string { return fmt.Sprintf("%.3g %%", 100*p) }

package svg

import (
	"math"
	"strconv"
	"strings"
)

// Short writes a number with three digits and k, M or G.
func Short(v float64) string {
	if v == 0 {
		return "0" // not -0
	}
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64) + unit
	}
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(s, "e") {
		exact, _ := strconv.ParseFloat(s, 64)
		s = strconv.FormatFloat(exact, 'f', -1, 64)
	}
	return s + unit
}

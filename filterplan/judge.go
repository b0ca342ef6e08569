package filterplan

import "math"

// judgedFrom is the number of false positives from which a filter is judged. Fewer
// prove nothing.
const judgedFrom = 64

// JudgedAt reports whether a filter is judged when it has its n-th false positive:
// each time their number has doubled, because a lookup has to do it.
func JudgedAt(n uint64) bool { return n >= judgedFrom && n&(n-1) == 0 }

// IsWorse reports whether a filter lets more absent keys pass than it should. It has let
// falsePositives of asked absent keys pass, and should let the share p pass. The
// difference must be more than chance explains: half of the expected number, and six
// standard deviations. For a good filter IsWorse returns true once in billions of calls.
func IsWorse(falsePositives, asked uint64, p float64) bool {
	expected := float64(asked) * p
	n := float64(falsePositives)
	return n > 1.5*expected && n > expected+6*math.Sqrt(expected)+6
}

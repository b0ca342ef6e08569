package form

import "math"

// LineKeys estimates how many different keys have set ones of the places of a line, if a key
// leaves a given place alone with the probability 1 - share. It is linear counting (Whang,
// Vander-Zanden and Taylor 1990) with keys in place of balls, as Swamidass and Baldi (2007)
// use it for Bloom filters:
//
//	n = ln(1 - ones/places) / ln(1 - share)
//
// less its bias, which is (e^t - t - 1) / 2k for k = share · places and t = n·share. It is
// small for a line, but would add up over many. A line in which every place is set counts as
// one with half a place left.
func LineKeys(ones, places int, share float64) float64 {
	if ones == 0 {
		return 0
	}
	free := max(float64(places-ones), 0.5) / float64(places)
	n := math.Log(free) / math.Log1p(-share)
	t := n * share
	return max(0, n-(math.Exp(t)-t-1)/(2*share*float64(places)))
}

// Common returns how many keys two sets have in common, from their numbers and that of their
// union, by inclusion and exclusion. If the union cannot be known it is the most that can be.
func Common(a, b, union float64) float64 {
	if math.IsInf(union, 1) {
		return min(a, b)
	}
	return min(max(0, a+b-union), a, b)
}

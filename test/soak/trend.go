package main

import "math"

// A trend is what a process had each time that the store was closed and the
// garbage collected: something grows slowly if the least of the last quarter is
// above the least of the second.
type trend struct {
	name    string
	samples []resources
}

// minSamples is how many it takes to tell.
const minSamples = 12

// What is left of a closed store may grow by so much in the course of a trend.
// The system gets memory back late, if at all.
const (
	trendHeap = 4 << 20
	trendRSS  = 96 << 20
)

// check returns a violation if something grows.
func (t *trend) check() error {
	n := len(t.samples)
	if n < minSamples {
		return nil
	}
	early, late := least(t.samples[n/4:n/2]), least(t.samples[n-n/4:])
	if late.Heap > early.Heap+trendHeap || late.RSS > early.RSS+trendRSS ||
		late.Descriptors > early.Descriptors || late.Goroutines > early.Goroutines {
		return violationf("%s grows: with the store closed there was %v in the second quarter, %v in the last of %d times",
			t.name, early, late, n)
	}
	return nil
}

// least returns the smallest of each figure.
func least(samples []resources) resources {
	m := resources{Heap: math.MaxUint64, RSS: math.MaxUint64, Descriptors: math.MaxInt, Goroutines: math.MaxInt}
	for _, r := range samples {
		m.Heap, m.RSS = min(m.Heap, r.Heap), min(m.RSS, r.RSS)
		m.Descriptors, m.Goroutines = min(m.Descriptors, r.Descriptors), min(m.Goroutines, r.Goroutines)
	}
	return m
}

//go:build race

package testenv

// Race tells that the race detector is on: all is slow, and allocates.
const Race = true

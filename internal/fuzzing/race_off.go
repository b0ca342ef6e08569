//go:build !race

package fuzzing

// slower is how many times as long everything may take.
const slower = 1

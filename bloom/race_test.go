//go:build race

package bloom

// The race detector makes everything 10 times as slow, and sees no more in a
// million questions to one filter than in a thousand.
func init() { raceDetector = true }

//go:build race

package bundle

func init() { raceEnabled = true }

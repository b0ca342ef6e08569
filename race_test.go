//go:build race

package shale

func init() { raceEnabled = true }

//go:build !unix

package testenv

import "time"

var start = time.Now()

// CPUTime returns the time since the process began: what it took is not measured on this system.
func CPUTime() time.Duration { return time.Since(start) }

//go:build !unix

package remote

import "time"

// cpuTime returns 0: it is not measured on this system.
func cpuTime() time.Duration { return 0 }

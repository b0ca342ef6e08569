//go:build unix

package testenv

import (
	"syscall"
	"time"
)

// CPUTime returns the processors' time that this process has taken. Unlike the clock, it does not go on
// while other processes have the processor.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build !unix

package main

import "time"

var start = time.Now()

// cpuTime is the time on the clock where CPU time is not at hand: the machine
// must be idle, and two goroutines need two processors.
func cpuTime() time.Duration { return time.Since(start) }

//go:build !linux

package main

import "time"

var start = time.Now()

// now is the time on the clock: the machine must be idle.
func now() time.Duration { return time.Since(start) }

const clock = "time on the clock"

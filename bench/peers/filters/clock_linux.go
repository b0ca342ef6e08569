package main

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// now is the processor time of this thread. On a busy machine it moves far less
// than the clock on the wall: what others run is not in it, only what their
// misses do to the caches.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // only for a wrong argument
	}
	return time.Duration(t.Nano())
}

const clock = "processor time of the thread"

// availableMemory is in bytes, 0 if it is not known.
func availableMemory() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(data, []byte("MemAvailable:"))
	line, _, _ := bytes.Cut(after, []byte(" kB"))
	kilobytes, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}

//go:build !linux

package main

import "runtime"

// residentBytes returns how much memory the Go runtime has of the system: what
// is known everywhere.
func residentBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

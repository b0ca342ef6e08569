package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
)

// Resources are what a process has at a moment. Zero is unknown.
type resources struct {
	Heap, RSS               uint64 // bytes
	Descriptors, Goroutines int
}

func measure() resources {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return resources{
		Heap:        sample[0].Value.Uint64(),
		RSS:         residentBytes(),
		Descriptors: openDescriptors(),
		Goroutines:  runtime.NumGoroutine(),
	}
}

// openDescriptors returns how many descriptors the process has open, 0 where
// that can't be told.
func openDescriptors() int {
	dir := "/proc/self/fd"
	if runtime.GOOS == "darwin" {
		dir = "/dev/fd"
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return len(names)
}

// usage returns the bytes of the files in dir whose names end so. Files that go
// meanwhile are not counted.
func usage(dir, suffix string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // likewise
		if err != nil || d.IsDir() || !strings.HasSuffix(d.Name(), suffix) {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

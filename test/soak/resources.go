package main

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"

	"github.com/shaledb/shale/internal/testenv"
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
		Descriptors: testenv.OpenDescriptors(),
		Goroutines:  runtime.NumGoroutine(),
	}
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

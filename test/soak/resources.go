package main

import (
	"fmt"
	"io/fs"
	"os"
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

const mega = 1e6

func (r resources) String() string {
	return fmt.Sprintf("heap %.1f MB  RSS %.1f MB  descriptors %d  goroutines %d", float64(r.Heap)/mega, float64(r.RSS)/mega, r.Descriptors, r.Goroutines)
}

// max returns the larger of both, each figure by itself.
func (r resources) max(o resources) resources {
	return resources{max(r.Heap, o.Heap), max(r.RSS, o.RSS), max(r.Descriptors, o.Descriptors), max(r.Goroutines, o.Goroutines)}
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

// residentBytes returns how much memory the process has, 0 where the system does not say.
func residentBytes() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	var size, pages uint64
	if _, serr := fmt.Sscan(string(text), &size, &pages); err != nil || serr != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

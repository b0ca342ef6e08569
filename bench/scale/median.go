package main

import (
	"runtime"
	"slices"
	"time"
)

const (
	batchTime  = time.Millisecond // that a batch of calls takes at least, so that the clock's own time does not count
	fewest     = 5                // samples of each figure, unless they take much longer than the budget
	patience   = 20               // budgets after which fewer samples are enough
	mostOfSlow = 25               // samples of calls that are measured one by one
)

// median returns the middle of some figures, of which there is at least one.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// enough reports whether n samples, taken in a time, are enough.
func (s *session) enough(n int, took time.Duration) bool {
	return n > 0 && (took >= s.budget && n >= fewest || took >= patience*s.budget)
}

// A watch measures the processor time of the calling thread where the system tells it, and
// otherwise the time that passes. So other programs on the machine hardly count. Requires:
// the goroutine is locked to its thread.
type watch struct {
	thread time.Duration
	known  bool
	begin  time.Time
}

func startWatch() watch {
	w := watch{begin: time.Now()}
	w.thread, w.known = threadTime()
	return w
}

func (w watch) elapsed() time.Duration {
	if now, ok := threadTime(); ok && w.known {
		return now - w.thread
	}
	return time.Since(w.begin)
}

// perCall returns the median time of a call in seconds, by a watch. It is for calls that wait
// for nothing. It makes batches of calls.
func (s *session) perCall(call func() error) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := 1
	var samples []float64
	for begin := time.Now(); !s.enough(len(samples), time.Since(begin)); {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		from := startWatch()
		for range n {
			if err := call(); err != nil {
				return nil, err
			}
		}
		took := from.elapsed()
		if took < batchTime {
			n *= 2 // the batch is too short to be a sample
			continue
		}
		samples = append(samples, took.Seconds()/float64(n))
	}
	return []float64{median(samples)}, nil
}

// each returns the medians of the figures that call returns. It is for calls that
// take long, and that need preparations which must not be measured.
func (s *session) each(call func() ([]float64, error)) ([]float64, error) {
	var samples [][]float64 // by figure
	n := 0
	for begin := time.Now(); n < mostOfSlow && !s.enough(n, time.Since(begin)); n++ {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		figures, err := call()
		if err != nil {
			return nil, err
		}
		if samples == nil {
			samples = make([][]float64, len(figures))
		}
		for i, f := range figures {
			samples[i] = append(samples[i], f)
		}
	}
	medians := make([]float64, len(samples))
	for i := range samples {
		medians[i] = median(samples[i])
	}
	return medians, nil
}

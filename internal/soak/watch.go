package main

import (
	"fmt"
	"sync"
	"time"
)

// patience is how long a call may take: a store must never hang. To compact all
// of it on a busy machine takes its time.
const patience = 4 * time.Minute

// A watch knows the calls that are under way.
type watch struct {
	mu    sync.Mutex
	since map[string]time.Time // by the name of the goroutine
}

// call runs fn, which calls the store, and notes that.
func (w *watch) call(name string, fn func() error) error {
	w.mu.Lock()
	w.since[name] = time.Now()
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.since, name)
		w.mu.Unlock()
	}()
	return fn()
}

// check returns an error if a call hangs.
func (w *watch) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, since := range w.since {
		if d := time.Since(since); d > patience {
			return fmt.Errorf("%s hangs in a call for %v", name, d.Round(time.Second))
		}
	}
	return nil
}

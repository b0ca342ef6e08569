package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A clock tells for how long a process has run. It stands still while the
// machine sleeps: then nothing hangs, and nothing is late.
type clock struct{ ticks atomic.Int64 }

// tick is how often somebody has to call advance.
const tick = 250 * time.Millisecond

func (c *clock) advance() { c.ticks.Add(1) }

func (c *clock) now() time.Duration { return time.Duration(c.ticks.Load()) * tick }

// patience is how long a call may take after which nothing moves on disk: a
// store must never hang. To compact many small tables on a busy machine takes
// its time, and is seen to go on.
const patience = 4 * time.Minute

// A watch knows the calls that are under way.
type watch struct {
	clock
	progress func() int64 // changes while the store works

	mu    sync.Mutex
	since map[string]time.Duration // by the name of the goroutine
	seen  int64                    // progress, when a call was last found to take long
	moved time.Duration            // when it was another
}

// call runs fn, which calls the store, and notes that.
func (w *watch) call(name string, fn func() error) error {
	w.mu.Lock()
	w.since[name] = w.now()
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
		d := w.now() - since
		if d <= patience {
			continue
		}
		if p := w.progress(); p != w.seen {
			w.seen, w.moved = p, w.now()
		}
		if w.now()-w.moved > patience {
			return fmt.Errorf("%s hangs in a call for %v", name, d)
		}
	}
	return nil
}

// eventually waits until ok, a minute at most.
func (c *clock) eventually(ok func() bool) error {
	for begin := c.now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if d := c.now() - begin; d > time.Minute {
			return fmt.Errorf("not within %v", d)
		}
	}
	return nil
}

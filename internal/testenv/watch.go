package testenv

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Watch panics, with the stacks of all goroutines, unless stop is called before
// the limit, times Slow. It counts seconds in which the process ran: one in which the whole
// machine stood still, as virtual ones do, is nobody's fault.
func Watch(limit time.Duration, what func() string) (stop func()) {
	return watch(limit*Slow(), time.Second, func() {
		buf := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s hangs:\n%s", what(), buf[:runtime.Stack(buf, true)]))
	})
}

func watch(limit, tick time.Duration, hangs func()) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped, left := false, limit
	next := func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		if left -= tick; left < 0 {
			hangs()
			return
		}
		timer.Reset(tick)
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(tick, next)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

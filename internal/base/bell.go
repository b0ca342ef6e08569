package base

import (
	"sync"
	"sync/atomic"
)

// A Bell wakes all goroutines that wait for the same thing. Where nobody waits, Ring costs the load
// of one word. The zero value is ready.
type Bell struct {
	heard atomic.Bool // somebody listens
	mu    sync.Mutex
	next  chan struct{} // closed by the next Ring; nil: nobody listens
}

// Listen returns a channel that the next Ring closes. The caller listens first, and then looks whether
// what it waits for has come already.
func (b *Bell) Listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	b.heard.Store(true)
	return b.next
}

// Ring wakes all that listen.
func (b *Bell) Ring() {
	if !b.heard.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard.Swap(false) {
		close(b.next)
		b.next = nil
	}
}

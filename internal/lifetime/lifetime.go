// Package lifetime knows whether a store is open, and has Close wait for what uses it.
package lifetime

import (
	"context"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/lockorder"
)

// A Lifetime knows whether the store is open. It makes Close wait for the calls and the
// goroutines that still use the store. Close calls End, which cancels Context, and then waits for
// Calls and Background. Reads and writes do not register: they notice that the view is gone, or
// that the commit queue is closed.
type Lifetime struct {
	Context    context.Context // done once Close has begun, or Open has failed
	Cancel     context.CancelFunc
	Background sync.WaitGroup // the store's own goroutines
	Calls      sync.WaitGroup // Flush, Compact, Verify and others that are under way

	// mu keeps Begin from adding to Calls after Close has begun to wait for them: such a call
	// would use a store that is closed.
	mu lockorder.Mutex[lockorder.Leaf]
}

// New returns the lifetime of a store that is open.
func New() *Lifetime {
	l := new(Lifetime)
	l.Context, l.Cancel = context.WithCancel(context.Background())
	return l
}

// Begin registers a call that Close has to wait for. If it returns nil, the caller must call
// Calls.Done. Otherwise the store is closing, and the error is base.ErrClosed.
func (l *Lifetime) Begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Closing() {
		return base.ErrClosed
	}
	l.Calls.Add(1)
	return nil
}

// Closing reports whether Close has begun, or Open has failed.
func (l *Lifetime) Closing() bool { return l.Context.Err() != nil }

// End begins the end of the lifetime. It returns false if another call of Close has done so.
func (l *Lifetime) End() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Closing() {
		return false
	}
	l.Cancel()
	return true
}

// Sleep waits for d, or until the store is closed. It reports whether the store
// is open.
func (l *Lifetime) Sleep(d time.Duration) (open bool) { return l.SleepUnless(nil, d) }

// SleepUnless waits for d, or until c is woken, or until the store is closed. It
// reports whether the store is open.
func (l *Lifetime) SleepUnless(c <-chan struct{}, d time.Duration) (open bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c:
		return true
	case <-l.Context.Done():
		return false
	}
}

// RetryDelay returns how long background work waits after its n-th failure in a
// row. The delay is 20 ms after the first and doubles, up to 5 s.
func RetryDelay(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 10), 5*time.Second)
}

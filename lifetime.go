package shale

import (
	"context"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/lockorder"
)

// This file has whether the store is open, and how Close waits for what uses it.

// A lifetime knows whether the store is open. It makes Close wait for the calls and the
// goroutines that still use the store. Close calls end, which cancels ctx, and then waits for
// calls and background. Reads and writes do not register: they notice that the view is gone, or
// that the commit queue is closed.
type lifetime struct {
	ctx        context.Context // done once Close has begun, or Open has failed
	cancel     context.CancelFunc
	background sync.WaitGroup // the store's own goroutines

	// mu keeps begin from adding to calls after Close has begun to wait for them: such a call
	// would use a store that is closed.
	mu    lockorder.Mutex[lockorder.Leaf]
	calls sync.WaitGroup // Flush, Compact, Verify and others that are under way
}

func newLifetime() *lifetime {
	l := new(lifetime)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// begin registers a call that Close has to wait for. If it returns nil, the caller must call
// calls.Done. Otherwise the store is closing, and the error is ErrClosed.
func (l *lifetime) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing() {
		return ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// closing reports whether Close has begun, or Open has failed.
func (l *lifetime) closing() bool { return l.ctx.Err() != nil }

// end begins the end of the lifetime. It returns false if another call of Close has done so.
func (l *lifetime) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing() {
		return false
	}
	l.cancel()
	return true
}

// sleep waits for d, or until the store is closed. It reports whether the store
// is open.
func (l *lifetime) sleep(d time.Duration) (open bool) { return l.sleepUnless(nil, d) }

// sleepUnless waits for d, or until c is woken, or until the store is closed. It
// reports whether the store is open.
func (l *lifetime) sleepUnless(c <-chan struct{}, d time.Duration) (open bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// retryDelay returns how long background work waits after its n-th failure in a
// row. The delay is 20 ms after the first and doubles, up to 5 s.
func retryDelay(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 10), 5*time.Second)
}

package shale

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/shaledb/shale/internal/guard"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/vfs"
)

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

// changes lets goroutines wait until something about the store has changed: a flush or a
// compaction has ended, writes are refused or taken again, files are gone, or the store is
// closing.
//
// A goroutine that changes such a thing calls broadcast afterwards. At that time it holds none of
// the locks that conditions take: those after changes.mu in the order at DB.
type changes struct {
	mu   lockorder.Mutex[lockorder.Changes]
	cond *sync.Cond
}

func newChanges() *changes {
	c := new(changes)
	c.cond = sync.NewCond(&c.mu)
	return c
}

// broadcast makes all goroutines that wait look at their conditions again.
func (c *changes) broadcast() {
	c.mu.Lock()
	c.cond.Broadcast()
	c.mu.Unlock()
}

// await returns once done returns true. It calls done at once, after each change, and when ctx is
// done; await does not end by itself then, so done has to look at ctx. mu is held while done
// runs, so no change is missed between a condition that is false and the wait. Thus one
// goroutine at a time evaluates its condition, and it must not wait or read a file.
func (c *changes) await(ctx context.Context, done func() bool) {
	stop := context.AfterFunc(ctx, c.broadcast)
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !done() {
		c.cond.Wait()
	}
}

// A place is where a store is. It is constant after Open.
type place struct {
	fs      vfs.FS // guard; of a read-only store Options.FS
	guard   *guard.FS
	dir     string
	storeID uint64
	session uint64    // of this handle, if it writes: see manifest.Session
	lock    io.Closer // nil if read-only
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// unlock gives up the lock, if the store has one.
func (p *place) unlock() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

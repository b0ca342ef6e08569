// Package changes lets goroutines wait until something about a store has changed.
package changes

import (
	"context"
	"sync"

	"github.com/shaledb/shale/internal/lockorder"
)

// Changes lets goroutines wait until something about the store has changed: a flush or a
// compaction has ended, writes are refused or taken again, files are gone, or the store is
// closing.
//
// A goroutine that changes such a thing calls Broadcast afterwards. At that time it holds none of
// the locks that conditions take: those after changes.mu in the order at DB.
type Changes struct {
	mu   lockorder.Mutex[lockorder.Changes]
	cond *sync.Cond
}

// New returns Changes for which nobody waits.
func New() *Changes {
	c := new(Changes)
	c.cond = sync.NewCond(&c.mu)
	return c
}

// Broadcast makes all goroutines that wait look at their conditions again.
func (c *Changes) Broadcast() {
	c.mu.Lock()
	c.cond.Broadcast()
	c.mu.Unlock()
}

// Await returns once done returns true. It calls done at once, after each change, and when ctx is
// done; Await does not end by itself then, so done has to look at ctx. mu is held while done
// runs, so no change is missed between a condition that is false and the wait. Thus one
// goroutine at a time evaluates its condition, and it must not wait or read a file.
func (c *Changes) Await(ctx context.Context, done func() bool) {
	stop := context.AfterFunc(ctx, c.Broadcast)
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !done() {
		c.cond.Wait()
	}
}

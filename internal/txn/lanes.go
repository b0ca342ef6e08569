package txn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Lanes let transactions that have lost a conflict over one key try again one after the other, in the order in which they
// lost. Each lane is for the keys of some hashes.
// The zero value has lanes in which nobody is.
type Lanes struct {
	once  sync.Once
	lanes [256]lane
	users atomic.Int32 // those that are in lanes, or wait for one
}

type lane struct {
	in     chan struct{} // made for the first that enters any
	losing atomic.Bool   // who is in it has lost again
}

// Taken reports whether somebody is in the lane of key.
func (l *Lanes) Taken(key []byte) bool { return l.users.Load() > 0 && len(l.of(key).in) > 0 }

// Losing reports whether somebody is in the lane of key who has lost there.
func (l *Lanes) Losing(key []byte) bool { return l.users.Load() > 0 && l.of(key).losing.Load() }

// Lost notes that who is in the lane of key has lost again. Requires: the caller is in it.
func (l *Lanes) Lost(key []byte) { l.of(key).losing.Store(true) }

func (l *Lanes) of(key []byte) *lane { return &l.lanes[Hash(key)%uint64(len(l.lanes))] }

// patience is how long a transaction waits for a lane. Lanes are for speed only, so it then goes on without: whoever has
// the lane may be waiting for it, as a transaction does in whose function it runs.
const patience = 100 * time.Millisecond

// Enter waits for the lane of key, and returns what leaves it; nil: ctx is done, or it took too long.
func (l *Lanes) Enter(ctx context.Context, key []byte) (leave func()) {
	l.once.Do(func() {
		for i := range l.lanes {
			l.lanes[i].in = make(chan struct{}, 1)
		}
	})
	l.users.Add(1)
	lane := l.of(key)
	select {
	case lane.in <- struct{}{}:
	default:
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case lane.in <- struct{}{}: // those that wait for a channel are served in their order
		case <-late.C:
			l.users.Add(-1)
			return nil
		case <-ctx.Done():
			l.users.Add(-1)
			return nil
		}
	}
	return func() {
		lane.losing.Store(false)
		<-lane.in
		l.users.Add(-1)
	}
}

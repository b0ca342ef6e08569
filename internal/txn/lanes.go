package txn

import (
	"context"
	"sync"
	"time"
)

// Lanes let transactions that have lost a conflict over one key try again one after the other, in the order in which they
// lost. Each lane is for the keys of some hashes.
// The zero value has lanes in which nobody is.
type Lanes struct {
	once  sync.Once
	lanes [256]chan struct{} // made for the first that enters
}

// patience is how long a transaction waits for a lane. Lanes are for speed only, so it then goes on without: whoever has
// the lane may be waiting for it, as a transaction does in whose function it runs.
const patience = 100 * time.Millisecond

// Enter waits for the lane of key, and returns what leaves it; nil: ctx is done, or it took too long.
func (l *Lanes) Enter(ctx context.Context, key []byte) (leave func()) {
	l.once.Do(func() {
		for i := range l.lanes {
			l.lanes[i] = make(chan struct{}, 1)
		}
	})
	lane := l.lanes[Hash(key)%uint64(len(l.lanes))]
	select {
	case lane <- struct{}{}:
	default:
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case lane <- struct{}{}: // those that wait for a channel are served in their order
		case <-late.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return func() { <-lane }
}

package shale

import (
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A health knows whether the store takes writes, and why not. It is read by every
// write, without a lock.
type health struct {
	healthEnv
	wake    chan struct{}           // to recoverLoop: there may be something to do
	failure atomic.Pointer[failure] // why writes are refused; nil: they are not
}

// A healthEnv is what a health needs from the store.
type healthEnv struct {
	now           func() time.Time
	logSyncFailed func() bool                 // whether a sync of the current log has failed, or there is no log
	refused       func(err error)             // writes are now refused because of err
	resumed       func(refused time.Duration) // they are taken again, after that time
}

// A failure is why writes are refused.
type failure struct {
	err   error
	since time.Time
	// passes says that the store tries by itself to take writes again: the
	// failure is a lack of room, or of something else that may be there later.
	// Other failures end with Resume or with another Open. A sync of the log that
	// has failed is one of those: nobody knows what the disk has.
	passes bool
}

func newHealth(env healthEnv) *health {
	return &health{healthEnv: env, wake: make(chan struct{}, 1)}
}

// err returns why writes are refused, wrapped in ErrReadOnly, or nil.
func (h *health) err() error {
	if f := h.failure.Load(); f != nil {
		return readOnlyError(f.err)
	}
	return nil
}

// lasting returns why writes are refused, wrapped in ErrReadOnly, if that does not
// pass by itself. A failure that may pass is returned as such; nil, nil: there is none.
func (h *health) lasting() (*failure, error) {
	f := h.failure.Load()
	if f != nil && !f.passes {
		return nil, readOnlyError(f.err)
	}
	return f, nil
}

// recovers says whether there is a failure that may pass.
func (h *health) recovers() bool {
	f := h.failure.Load()
	return f != nil && f.passes
}

// logFailed makes writes fail because of err, an error of the log, and returns what
// the present writer gets. A full disk passes, unless a sync has met it.
func (h *health) logFailed(err error) error {
	return h.refuse(err, base.IsNoSpace(err) && !h.logSyncFailed())
}

// refuse makes writes fail because of err, unless an earlier failure does already, and
// returns what the present writer gets. A failure that does not pass
// takes the place of one that would.
func (h *health) refuse(err error, passes bool) error {
	f := &failure{err: err, since: h.now(), passes: passes}
	old := h.failure.Load()
	for old == nil || old.passes && !passes {
		if h.failure.CompareAndSwap(old, f) {
			h.refused(err)
			base.Wake(h.wake)
			break
		}
		old = h.failure.Load()
	}
	return readOnlyError(err)
}

// resolve lets writes go on after the failure f. If the store has failed in a worse way
// meanwhile, they stay refused, and resolve returns why.
func (h *health) resolve(f *failure) error {
	if h.failure.CompareAndSwap(f, nil) {
		h.resumed(h.now().Sub(f.since))
	}
	return h.err()
}

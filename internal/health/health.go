// Package health knows whether a store takes writes, and why not.
package health

import (
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A Health knows whether the store takes writes, and why not. Every write reads it, without
// a lock. All methods may be called concurrently.
type Health struct {
	env     Env
	wake    chan struct{}           // see Woken
	failure atomic.Pointer[Failure] // why writes are refused; nil: they are not
}

// An Env is what a Health needs from the store.
type Env struct {
	Now           func() time.Time
	LogSyncFailed func() bool                 // whether a sync of the current log has failed, or there is no log
	Refused       func(err error)             // writes are now refused because of err
	Resumed       func(refused time.Duration) // they are taken again, after that time
}

// A Failure is why writes are refused.
type Failure struct {
	Err   error
	since time.Time
	// Passes says that the store tries by itself to take writes again: the
	// failure is a lack of room, or of something else that may be there later.
	// Other failures end with Resume or with another Open. A sync of the log that
	// has failed is one of those: nobody knows what the disk has.
	Passes bool
}

// New returns the Health of a store that takes writes.
func New(env Env) *Health {
	return &Health{env: env, wake: make(chan struct{}, 1)}
}

// Current returns why writes are refused; nil: they are not.
func (h *Health) Current() *Failure { return h.failure.Load() }

// Nudge says that what is in the way of writes may have passed.
func (h *Health) Nudge() { base.Wake(h.wake) }

// Woken returns what tells of calls of Nudge, and of failures, several at once maybe.
func (h *Health) Woken() <-chan struct{} { return h.wake }

// Err returns why writes are refused, wrapped in ErrReadOnly, or nil.
func (h *Health) Err() error {
	if f := h.failure.Load(); f != nil {
		return base.ReadOnly(f.Err)
	}
	return nil
}

// Lasting returns why writes are refused, wrapped in ErrReadOnly, if that does not
// pass by itself. A failure that may pass is returned as such; nil, nil: there is none.
func (h *Health) Lasting() (*Failure, error) {
	f := h.failure.Load()
	if f != nil && !f.Passes {
		return nil, base.ReadOnly(f.Err)
	}
	return f, nil
}

// Recovers says whether there is a failure that may pass.
func (h *Health) Recovers() bool {
	f := h.failure.Load()
	return f != nil && f.Passes
}

// LogFailed makes writes fail because of err, an error of the log, and returns what
// the present writer gets. A full disk passes, unless a sync has met it.
func (h *Health) LogFailed(err error) error {
	return h.Refuse(err, h.logPasses(err))
}

func (h *Health) logPasses(err error) bool { return base.IsNoSpace(err) && !h.env.LogSyncFailed() }

// SyncFailed is LogFailed for a sync outside the queue of writers. Another log may take the
// place of the one that failed at any time, and then the failure is of no account: current
// says whether that has not happened. It is asked after a look at the failure of now, which
// ends with the change of logs. So a failure of the old log refuses no writes to the new one,
// unless the store fails and is resumed once more between the two looks.
func (h *Health) SyncFailed(err error, current func() bool) error {
	old := h.failure.Load()
	if !current() {
		return nil
	}
	return h.refuse(old, err, h.logPasses(err), current)
}

// Refuse makes writes fail because of err, unless an earlier failure does already, and
// returns what the present writer gets. A failure that does not pass
// takes the place of one that would.
func (h *Health) Refuse(err error, passes bool) error {
	return h.refuse(h.failure.Load(), err, passes, func() bool { return true })
}

// refuse is Refuse after a look at the failure of then, old, as long as holds says that
// err is of account.
func (h *Health) refuse(old *Failure, err error, passes bool, holds func() bool) error {
	f := &Failure{Err: err, since: h.env.Now(), Passes: passes}
	for old == nil || old.Passes && !passes {
		if h.failure.CompareAndSwap(old, f) {
			h.env.Refused(err)
			h.Nudge()
			break
		}
		if old = h.failure.Load(); !holds() {
			return nil
		}
	}
	return base.ReadOnly(err)
}

// Resolve lets writes go on after the failure f. If the store has failed in a worse way
// meanwhile, they stay refused, and resolve returns why.
func (h *Health) Resolve(f *Failure) error {
	if h.failure.CompareAndSwap(f, nil) {
		h.env.Resumed(h.env.Now().Sub(f.since))
	}
	return h.Err()
}

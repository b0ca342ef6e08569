// Package health knows whether a store takes writes, and if not, why.
package health

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// A Health knows whether the store takes writes, and if not, why. Every
// write reads it without a lock. All methods may be called concurrently.
type Health struct {
	env  Env
	wake chan struct{} // see Woken

	// state is why writes are refused. If they are taken, its Err is nil. Each state is a
	// new value. So a caller that finds the same pointer twice knows that nothing happened between.
	state atomic.Pointer[Failure]
}

// An Env is what a Health needs from the store.
type Env struct {
	Now           func() time.Time
	LogSyncFailed func() bool                 // reports whether a sync of the current log has failed, or there is no log
	Refused       func(err error)             // reports that writes are refused from now on because of err
	Resumed       func(refused time.Duration) // reports that writes are taken again after that time
}

// A Failure is the reason why writes are refused.
type Failure struct {
	Err   error
	since time.Time
	// Passes says that the store tries by itself to take writes again, because
	// the cause may go away: the disk is full, for example. Any other failure
	// ends only with Resume or with another Open. A failed sync of the log is
	// of that kind, because nobody knows which bytes are on the disk.
	Passes bool
	// Foreign says that Err is not of the store: the program has refused a commit. It never
	// passes, whatever it wraps, and says nothing about the store's own disk.
	Foreign bool
	// Fenced says that writes are refused for good, because the program has said so (Fence), or
	// because the directory is lost (Lose). Intact says that until a fence no failure of the log
	// was known that lasts.
	Fenced, Intact bool
}

// New returns the Health of a store that takes writes.
func New(env Env) *Health {
	h := &Health{env: env, wake: make(chan struct{}, 1)}
	h.state.Store(&Failure{})
	return h
}

// Current returns why writes are refused, or nil if they are taken.
func (h *Health) Current() *Failure {
	if f := h.state.Load(); f.Err != nil {
		return f
	}
	return nil
}

// Nudge wakes the goroutine that listens to Woken,
// because the cause of a failure may have gone away.
func (h *Health) Nudge() { base.Wake(h.wake) }

// Woken returns the channel that Nudge and new failures
// send to. One value may stand for several of them.
func (h *Health) Woken() <-chan struct{} { return h.wake }

// Err returns why writes are refused, wrapped in ErrReadOnly, or nil if they are taken.
func (h *Health) Err() error {
	if f := h.Current(); f != nil {
		return base.ReadOnly(f.Err)
	}
	return nil
}

// Lasting returns an error that wraps ErrReadOnly if writes are refused
// because of a failure that does not pass. If the failure may pass, it
// returns the failure and no error. If there is none, it returns nil, nil.
func (h *Health) Lasting() (*Failure, error) {
	f := h.Current()
	if f != nil && !f.Passes {
		return nil, base.ReadOnly(f.Err)
	}
	return f, nil
}

// Recovers reports whether there is a failure that may pass.
func (h *Health) Recovers() bool {
	f := h.Current()
	return f != nil && f.Passes
}

// LogFailed refuses writes because of err, an error of the log. It returns the error for the
// current writer. A full disk is a failure that passes, unless a sync of the log has failed.
func (h *Health) LogFailed(err error) error {
	return h.Refuse(err, h.logPasses(err))
}

// logPasses reports whether err, an error of the log, may go away.
func (h *Health) logPasses(err error) bool { return base.IsNoSpace(err) && !h.env.LogSyncFailed() }

// SyncFailed is LogFailed for a sync outside the queue of writers. current
// reports whether the log that failed is still the current one. If another
// log has replaced it, SyncFailed does nothing and returns nil.
//
// The log may be replaced at any time, also during this call. A recovery replaces the
// log first and then ends the failure. So SyncFailed loads the state before it calls
// current. If the log is replaced after that, the state has changed, too, and refuse asks
// again. That is so even if the store fails and is resumed once more between the two.
func (h *Health) SyncFailed(err error, current func() bool) error {
	old := h.state.Load()
	if !current() {
		return nil
	}
	return h.refuse(old, &Failure{Err: err, Passes: h.logPasses(err)}, current)
}

// CommitRefused refuses writes because the program has refused to let a commit pass, with err.
// It returns the error for the writers of that commit. The commit is in the log, and only
// another log ends that. So the failure does not pass, even if err says that a disk is full:
// it is the disk of somebody else.
func (h *Health) CommitRefused(err error) error {
	return h.refuse(h.state.Load(), &Failure{Err: err, Foreign: true}, func() bool { return true })
}

// Refuse makes writes fail because of err, unless an earlier
// failure does so already. It returns the error for the current
// writer. A failure that does not pass replaces one that passes.
func (h *Health) Refuse(err error, passes bool) error {
	return h.refuse(h.state.Load(), &Failure{Err: err, Passes: passes}, func() bool { return true })
}

// refuse is Refuse for the failure f, and for a caller that has loaded the state old. Whenever
// the state has changed since, it calls holds, and gives up if f does not matter any more.
func (h *Health) refuse(old, f *Failure, holds func() bool) error {
	f.since = h.env.Now()
	for old.Err == nil || old.Passes && !f.Passes {
		if h.state.CompareAndSwap(old, f) {
			h.env.Refused(f.Err)
			h.Nudge()
			break
		}
		if old = h.state.Load(); !holds() {
			return nil
		}
	}
	return base.ReadOnly(f.Err)
}

// Fence refuses writes for good because of cause. An earlier fence stays, and any other failure
// is replaced.
func (h *Health) Fence(cause error) {
	f := &Failure{Err: cause, since: h.env.Now(), Fenced: true}
	for {
		old := h.state.Load()
		if old.Fenced {
			return
		}
		f.Intact = old.Err == nil || old.Passes
		if h.state.CompareAndSwap(old, f) {
			h.env.Refused(cause)
			h.Nudge()
			return
		}
	}
}

// Lose refuses writes for good because of err: the directory is not the store's any more. Nothing
// may be written to the log either. If there was a fence, its cause stays next to err.
func (h *Health) Lose(err error) {
	for {
		old := h.state.Load()
		f := &Failure{Err: err, since: h.env.Now(), Fenced: true}
		if old.Fenced {
			f.Err = fmt.Errorf("%w; %w", old.Err, err)
		}
		if h.state.CompareAndSwap(old, f) {
			h.env.Refused(err)
			h.Nudge()
			return
		}
	}
}

// Resolve ends the failure f, so that writes are taken again. If another
// failure has replaced f, writes are still refused, and Resolve returns why.
func (h *Health) Resolve(f *Failure) error {
	if h.state.CompareAndSwap(f, &Failure{}) {
		h.env.Resumed(h.env.Now().Sub(f.since))
	}
	return h.Err()
}

package remote

import (
	"context"
	"errors"
	"time"

	"github.com/shaledb/shale"
)

// How a Reader learns of what is new. All polls hold the lock polling, so one goroutine at a time
// uses the follower, whoever asks.

// run looks for something new at each interval, and when it is asked to, until Close. It is the one goroutine that a Reader
// has besides those of its fetches. Others poll too (Refresh, a read that finds its table gone), one at a time: see polling.
func (r *Reader) run() {
	var tick <-chan time.Time
	if r.opts.Interval > 0 {
		t := time.NewTicker(r.opts.Interval)
		defer t.Stop()
		tick = t.C
	}
	// Renewals have a clock of their own, so a Reader that never polls (a negative Interval) keeps
	// its pins too.
	renew := time.NewTicker(SessionPin / 3)
	defer renew.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-renew.C:
			if err := r.renew(); err != nil {
				r.emit(Event{Kind: EventAway, Time: time.Now(), Err: err})
			}
			continue
		case <-tick:
		case <-r.ask:
		case _, open := <-r.opts.Wake:
			if !open {
				r.opts.Wake = nil // a closed channel would always be ready
			}
		}
		_ = r.poll(r.ctx) // Lag and the event report it
	}
}

// renew moves the Reader's own pin to the state that is shown, and makes the pins of snapshots last longer. It comes three
// times in the life of a pin, so that two attempts may fail.
func (r *Reader) renew() error {
	if r.session == nil {
		return nil
	}
	if err := r.polling.take(r.ctx); err != nil {
		return shale.ErrClosed
	}
	defer r.polling.release()
	return errors.Join(r.movePin(), r.session.renew(r.ctx))
}

// movePin moves the Reader's own pin to the newest state. The new pin is there before the old one goes, so that no state in
// between is without one. Requires: polling is held.
func (r *Reader) movePin() error {
	now := r.follow.chain
	if now.N() == r.held {
		return nil
	}
	next, err := r.session.hold(r.ctx, now)
	if err != nil {
		return err
	}
	r.session.release(r.ctx, r.held)
	r.held = next
	return nil
}

// untilClose returns a context that ends with ctx, and when the Reader is closed. The caller must call cancel.
// Close waits for the requests of a Reader, so none may last longer than that.
func (r *Reader) untilClose(ctx context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(r.ctx, end)
	return ctx, func() {
		stop()
		end()
	}
}

// lockPolls takes the lock polling, and returns shale.ErrClosed if the Reader is closed.
func (r *Reader) lockPolls(ctx context.Context) error {
	// The lock may still be had after Close has begun. It is given back then, since Close takes it
	// to wait for the last poll.
	err := r.polling.take(ctx)
	switch {
	case r.ctx.Err() == nil:
		return err
	case err == nil:
		r.polling.release()
	}
	return shale.ErrClosed
}

// poll applies new steps and segments, and notes whether that succeeded. If ctx ends before that is known, it notes nothing.
func (r *Reader) poll(ctx context.Context) error {
	ctx, cancel := r.untilClose(ctx)
	defer cancel()
	begun := time.Now()
	if err := r.lockPolls(ctx); err != nil {
		return err
	}
	err := r.take(ctx)
	seen, view := r.follow.seen, r.follow.view()
	r.polling.release()
	if r.ctx.Err() != nil {
		return shale.ErrClosed
	}
	// A call that its program has given up says nothing about the bucket.
	if ctx.Err() == nil {
		r.note(begun, seen, view, err)
	}
	return err
}

// take applies new steps and segments. After a table was mended it opens another handle, because a table that was opened
// without its object stays so; snapshots and iterators keep the old one until Close. Requires: polling is held.
func (r *Reader) take(ctx context.Context) error {
	changed, err := r.follow.poll(ctx)
	// advance stays set if the handle can't be advanced now. The next poll then tries again, even
	// if nothing new has come.
	r.advance = r.advance || changed
	err = errors.Join(err, r.showNew(ctx))
	r.reopen = r.reopen || r.files.Mended(ctx)
	if !r.reopen {
		return err
	}
	was := r.db.Load()
	if openErr := r.openHandle(); openErr != nil {
		return errors.Join(err, openErr)
	}
	r.reopen, r.old = false, append(r.old, was)
	return err
}

// showNew makes the handle show what the follower has. If it fails, the next call does it: the follower's directory may be
// ahead of the handle, but never behind. Requires: polling is held.
func (r *Reader) showNew(ctx context.Context) error {
	if !r.advance {
		return nil
	}
	if _, err := r.db.Load().Advance(ctx); err != nil {
		return err
	}
	if err := r.shown(); err != nil {
		return err
	}
	r.advance = false
	return nil
}

// Refresh looks for something new now, and returns when the Reader shows all that the bucket had when the call
// began.
func (r *Reader) Refresh(ctx context.Context) error {
	if r.pinned != nil {
		return nil
	}
	if err := r.poll(ctx); err != nil {
		return readerError("refresh", err)
	}
	return nil
}

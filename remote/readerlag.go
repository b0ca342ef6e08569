package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// How far a Reader is, and how programs wait for it.

// Seq returns the sequence number of the last commit that the Reader shows.
func (r *Reader) Seq() uint64 { return r.seq.Load() }

// WaitFor returns when the Reader shows the commit with sequence number seq. A program that has written finds its
// own writes again if it carries the LastSeq of its LogPosition to the reader. It returns shale.ErrClosed if the Reader is
// closed, and the error of ctx, with that of the bucket if it does not answer.
func (r *Reader) WaitFor(ctx context.Context, seq uint64) error {
	// The Reader is asked to look at each interval, within a second at the latest, and 100 times a
	// second at most.
	tick := time.NewTicker(min(max(r.opts.Interval, 10*time.Millisecond), time.Second))
	defer tick.Stop()
	for ask := true; ; {
		r.mu.Lock()
		// The channel is taken before the number is looked at. A change in between closes the
		// channel, so it is not missed.
		changed, closed, last := r.changed, r.closed, r.lag.err
		r.mu.Unlock()
		switch {
		case r.Seq() >= seq:
			return nil
		case closed:
			return shale.ErrClosed
		case r.pinned != nil:
			return fmt.Errorf("remote: wait for %d: a reader at a pin never moves, and shows %d", seq, r.Seq())
		}
		if ask {
			base.Wake(r.ask)
		}
		select {
		case <-changed:
			ask = false // a bucket that refuses at once would be asked again and again
		case <-tick.C:
			ask = true
		case <-ctx.Done():
			return fmt.Errorf("remote: wait for sequence number %d, %d is shown: %w", seq, r.Seq(), errors.Join(ctx.Err(), last))
		}
	}
}

// A ReaderLag says how far a Reader is behind the bucket. How far the bucket is behind the writer, the writer
// knows: see [Store.Lag].
type ReaderLag struct {
	// Time is how long ago the Reader last saw that it shows all that it may. It grows while the bucket
	// does not answer.
	Time time.Duration
	// Seq is how many commits the Reader has found in the bucket and does not show: they wait for a step.
	Seq uint64
	// Written is when the newest segment or step that is shown was written, by the writer's clock.
	Written time.Time
	// Err is the error of the last look. If there is none, it says which table the Reader has to do without, or is nil.
	Err error
}

// Lag returns how far the Reader is behind. A Reader at a pin is not.
func (r *Reader) Lag() ReaderLag {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := ReaderLag{Written: r.lag.written, Err: r.lag.err}
	if l.Err == nil {
		_, l.Err = r.files.Damage()
	}
	if r.pinned == nil {
		l.Time = time.Since(r.lag.checked)
		l.Seq = r.lag.seen - min(r.lag.seen, r.Seq())
	}
	return l
}

// note notes how a poll that has begun at a time went, and reports when the bucket goes and comes back. seen is the
// highest sequence number that was found in the bucket. Without an error, view is that of what is shown.
func (r *Reader) note(begun time.Time, seen uint64, view feedView, err error) {
	r.mu.Lock()
	l := &r.lag
	// Events wait for the end of this function, because emit calls the program, which must not
	// happen under the lock.
	event := Event{Time: time.Now(), Err: err}
	l.err, l.seen = err, max(l.seen, seen)
	switch {
	case r.ctx.Err() != nil:
	case err == nil:
		// What came into the bucket during the poll may not be shown. So the time at which the poll
		// began counts.
		l.checked = begun
		if r.view != view { // segments have come of which tables had all
			r.view = view
			close(r.changed)
			r.changed = make(chan struct{})
		}
		if !l.away.IsZero() {
			event.Kind, event.Duration = EventBack, event.Time.Sub(l.away)
			l.away = time.Time{}
			defer r.emit(event)
		}
	default:
		if l.away.IsZero() {
			l.away = begun
			event.Kind = EventAway
			defer r.emit(event)
		}
		close(r.changed)
		r.changed = make(chan struct{})
	}
	r.mu.Unlock()
}

// emit passes an event to the program. Requires: no lock is held.
func (r *Reader) emit(e Event) {
	if r.opts.OnEvent != nil {
		r.opts.OnEvent(e)
	}
}

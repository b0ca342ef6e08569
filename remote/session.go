package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/chain"
)

// The pins of a Reader and its snapshots. A pin costs requests, so all that show the same step
// share one.

// A session is the pins of one Reader. Each keeps the objects of a state that the Reader shows, or that a snapshot of
// it shows. They expire by the clock if the Reader dies, and are renewed as long as it lives.
//
// The Reader moves on with each step, and its pin does not: objects stay for Options.Retain anyway, and the pin
// follows at each renewal. A snapshot has a pin of exactly its state.
//
// After a crash nobody removes the pins. They expire within an hour, and the next collection
// deletes them.
type session struct {
	b     Bucket
	name  string // of all pins of the Reader
	owner string
	now   func() time.Time

	requests lock // held during those of hold and renew

	mu   sync.Mutex // protects the following field; taken after requests, and not held during them
	pins map[uint64]*sessionPin
}

// A sessionPin is the pin of one step. Its fields are protected by session.mu.
type sessionPin struct {
	*Pin
	refs int // snapshots, and the Reader itself
}

// newSession returns the session of a Reader, which has no pins yet. Its name is drawn, so two Readers share no pin.
func newSession(b Bucket, owner string) *session {
	return &session{
		b: b, name: fmt.Sprintf("reader-%016x", rand.Uint64()), owner: owner, now: time.Now,
		requests: make(lock, 1), pins: make(map[uint64]*sessionPin),
	}
}

// hold pins the state of c, or takes another reference of its pin. It returns the number of the step for release.
func (s *session) hold(ctx context.Context, c *chain.Chain) (uint64, error) {
	if err := s.requests.take(ctx); err != nil {
		return 0, err
	}
	defer s.requests.release()
	s.mu.Lock()
	p := s.pins[c.N()]
	if p != nil {
		p.refs++
	}
	s.mu.Unlock()
	if p != nil {
		return c.N(), nil
	}
	// mu is free during the request, so that releases need not wait for it. requests is held, so
	// that nobody pins the same step meanwhile.
	made, err := c.Pin(ctx, s.b, s.name, chain.PinOptions{Owner: s.owner, Lasts: SessionPin, Now: s.now})
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins[c.N()] = &sessionPin{made, 1}
	return c.N(), nil
}

// release gives up a reference. With the last one the pin goes. If its object can't be deleted, it expires. After close
// it does nothing.
func (s *session) release(ctx context.Context, step uint64) {
	if label := s.unref(step); label != "" {
		_ = chain.Unpin(ctx, s.b, label) // see above
	}
}

// unref gives up a reference, and returns the label of the pin if it was the last one.
// The request that removes the pin is left to the caller, because mu must not be held during it.
func (s *session) unref(step uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pins[step]
	if p == nil {
		return ""
	}
	if p.refs--; p.refs > 0 {
		return ""
	}
	delete(s.pins, step)
	return p.Label
}

// renew makes all pins last longer.
func (s *session) renew(ctx context.Context) error {
	if err := s.requests.take(ctx); err != nil {
		return err
	}
	defer s.requests.release()
	var failed error
	for step, p := range s.held() {
		// A pin that can't be renewed does not hold up the others. It has two thirds of its life
		// left, and is tried again before they are over.
		next, err := chain.RenewPin(ctx, s.b, p, SessionPin, s.now())
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		_ = chain.Unpin(ctx, s.b, s.replace(step, p, next)) // it expires
	}
	return failed
}

// held returns the present pins.
// The map is a copy, because renewals take requests and pins come and go meanwhile.
func (s *session) held() map[uint64]*Pin {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(map[uint64]*Pin, len(s.pins))
	for step, p := range s.pins {
		held[step] = p.Pin
	}
	return held
}

// replace puts a pin in the place of an old one, and returns the label of the one that is not needed: the old one, or
// the next one if the step was released meanwhile.
// The request was made without mu, so a snapshot may have closed in the meantime.
func (s *session) replace(step uint64, old, next *Pin) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pins[step]
	if p == nil {
		return next.Label
	}
	p.Pin = next
	return old.Label
}

// close deletes all pins, as far as the bucket answers until ctx is done. The others expire. Requires: the contexts of all
// other calls have ended, or are about to.
func (s *session) close(ctx context.Context) {
	_ = s.requests.take(context.Background()) // the others end soon
	defer s.requests.release()
	s.mu.Lock()
	// With an empty map, a release that comes later finds no pin and makes no request.
	pins := s.pins
	s.pins = make(map[uint64]*sessionPin)
	s.mu.Unlock()
	for _, p := range pins {
		_ = chain.Unpin(ctx, s.b, p.Label) // it expires
	}
}

// A Snapshot is the store as a Reader showed it at one moment. Its state is pinned, so that what it needs stays in the
// bucket until Close, however long that is.
type Snapshot struct {
	*shale.Snapshot
	r    *Reader
	step uint64 // of its pin, if the Reader pins
}

// Snapshot returns the state that the Reader shows. It must be closed. It makes two requests at most, and none if
// there is a snapshot of the same step already.
func (r *Reader) Snapshot(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := r.untilClose(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		s, err := r.snapshot(ctx)
		switch {
		case err == nil:
			return s, nil
		case r.ctx.Err() != nil:
			return nil, shale.ErrClosed
		case errors.Is(err, ErrSnapshotGone) && attempt == 0 && r.reload(ctx) == nil:
			continue
		}
		return nil, readerError("snapshot", err)
	}
}

// snapshot is one attempt of Snapshot.
func (r *Reader) snapshot(ctx context.Context) (*Snapshot, error) {
	// The snapshot comes before its pin. If its state is collected in between, no pin can be made,
	// and Snapshot begins again with the newest state.
	inner, c, err := r.shownState(ctx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Snapshot: inner, r: r}
	if r.session != nil {
		if s.step, err = r.session.hold(ctx, c); err != nil {
			return nil, errors.Join(err, inner.Close())
		}
	}
	return s, nil
}

// shownState returns what the handle shows, and the chain up to there. Both are taken while no poll is under way, so that the
// pin is one of exactly the state that the snapshot shows.
func (r *Reader) shownState(ctx context.Context) (*shale.Snapshot, *chain.Chain, error) {
	if err := r.lockPolls(ctx); err != nil {
		return nil, nil, err
	}
	defer r.polling.release()
	if err := r.showNew(ctx); err != nil { // or the pin would be one of a later state
		return nil, nil, err
	}
	inner, err := r.db.Load().Snapshot()
	c := *r.follow.chain // that goes on
	return inner, &c, err
}

// Close gives the state up. A second Close returns shale.ErrClosed. If the bucket does not answer within some seconds,
// the pin of the state stays there until it expires.
func (s *Snapshot) Close() error {
	if err := s.Snapshot.Close(); err != nil {
		return err
	}
	if s.r.session != nil && s.r.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(s.r.ctx, unpinWait)
		defer cancel()
		s.r.session.release(ctx, s.step)
	}
	return nil
}

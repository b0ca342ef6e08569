package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shaledb/shale"
)

// A session is the pins of one Reader. Each keeps the objects of a state that the Reader shows, or that a snapshot of
// it shows. They expire by the clock if the Reader dies, and are renewed as long as it lives.
//
// The Reader moves on with each step, and its pin does not: objects stay for Options.Retain anyway, and the pin
// follows at each renewal. A snapshot has a pin of exactly its state.
type session struct {
	b     Bucket
	name  string // of all pins of the Reader
	owner string
	now   func() time.Time

	mu   sync.Mutex // protects the following field; held during requests, of which there are few
	pins map[uint64]*sessionPin
}

// A sessionPin is the pin of one step.
type sessionPin struct {
	*Pin
	refs int // snapshots, and the Reader itself
}

func newSession(b Bucket, owner string) *session {
	return &session{b: b, name: fmt.Sprintf("reader-%016x", rand.Uint64()), owner: owner, now: time.Now, pins: make(map[uint64]*sessionPin)}
}

// hold pins the state of c, or takes another reference of its pin. It returns the number of the step for release.
func (s *session) hold(ctx context.Context, c *chain) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pins[c.n()]; p != nil {
		p.refs++
		return c.n(), nil
	}
	p, err := c.pin(ctx, s.b, s.name, PinOptions{Owner: s.owner, Lasts: SessionPin, now: s.now})
	if err != nil {
		return 0, err
	}
	s.pins[c.n()] = &sessionPin{p, 1}
	return c.n(), nil
}

// release gives up a reference. With the last one the pin goes. If its object can't be deleted, it expires.
func (s *session) release(ctx context.Context, step uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pins[step]
	if p.refs--; p.refs == 0 {
		delete(s.pins, step)
		_ = unpin(ctx, s.b, p.Label) // see above
	}
}

// renew makes all pins last longer.
func (s *session) renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	for _, p := range s.pins {
		next, err := p.renew(ctx, s.b, SessionPin, s.now())
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		_ = unpin(ctx, s.b, p.Label) // it expires
		p.Pin = next
	}
	return failed
}

// close deletes all pins.
func (s *session) close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for step, p := range s.pins {
		delete(s.pins, step)
		_ = unpin(ctx, s.b, p.Label) // it expires
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
	for attempt := 0; ; attempt++ {
		s, err := r.snapshot(ctx)
		if err == nil {
			return s, nil
		}
		if errors.Is(err, ErrSnapshotGone) && attempt == 0 && r.reload() == nil {
			continue
		}
		return nil, readerError("snapshot", err)
	}
}

// snapshot is one attempt of Snapshot.
func (r *Reader) snapshot(ctx context.Context) (*Snapshot, error) {
	r.polling.Lock()
	c := r.follow.chain.clone()
	inner, err := r.db.Load().Snapshot()
	r.polling.Unlock()
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

// Close gives the state up. A second Close returns shale.ErrClosed.
func (s *Snapshot) Close() error {
	if err := s.Snapshot.Close(); err != nil {
		return err
	}
	if s.r.session != nil && s.r.ctx.Err() == nil {
		s.r.session.release(s.r.ctx, s.step)
	}
	return nil
}

// clone returns a chain that does not change when c does.
func (c *chain) clone() *chain {
	next, state := *c, *c.state
	next.state = &state
	return &next
}

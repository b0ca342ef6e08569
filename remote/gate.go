package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// What writers wait for. The gate is called by the goroutine that leads a group of writes, and as
// long as it has not returned, none of the group is acknowledged.

// gate is the gate of the local store: the leader of the commit queue asks it before a group of writes
// is acknowledged. Usually it only counts. With Strict it returns when the group is in the bucket.
// With MaxLag it waits while the bucket is too far behind.
func (s *Store) gate(pos shale.LogPosition) error {
	// The group counts before anything else, whatever becomes of it: it is in the local log.
	lacking, rotated := s.ledger.wrote(pos)
	if err := s.Err(); err != nil {
		return err
	}
	if s.opts.Strict {
		return s.gateStrict(pos)
	}
	// A log that is full waits for its seal only. Shipping it at once frees its file, unless the
	// program ships by itself and there is room.
	if rotated && (s.opts.Ship > 0 || s.opts.MaxKept >= 0 && lacking > s.opts.MaxKept) {
		base.Wake(s.shipNow)
	}
	if s.opts.MaxLag == 0 {
		return nil
	}
	return s.awaitShipping()
}

// behind reports whether MaxLag makes writers wait now: the oldest write that can't be restored yet is older than that.
// Time that passes makes it true without any event, and only the shipper and the publisher make it
// false again.
func (s *Store) behind() bool { return s.ledger.lag().Time > s.opts.MaxLag }

// awaitShipping waits until the bucket is near enough. It asks for a channel before it looks, so that no change between the
// two is missed. It wakes the shipper each time, because a store that ships only when it is told to would never ship.
func (s *Store) awaitShipping() error {
	if !s.behind() {
		return nil
	}
	begin := time.Now()
	s.emit(Event{Kind: EventWait, Reason: "MaxLag"})
	defer func() { s.emit(Event{Kind: EventGoOn, Reason: "MaxLag", Duration: time.Since(begin)}) }()
	for {
		changed := s.ledger.awaited()
		if !s.behind() {
			return nil
		}
		base.Wake(s.shipNow)
		if s.lacksTables() {
			base.Wake(s.publishNow)
		}
		select {
		case <-changed:
		case <-s.gates.Done():
			return s.gateError()
		}
	}
}

// gateStrict returns when the bucket has all writes up to pos, and the tables of ingestions up to there. It tries until then,
// later each time: the group is in the local log already, so the only other way out is a store that is closed or fenced.
func (s *Store) gateStrict(pos shale.LogPosition) error {
	retry := backoff{}
	for {
		err := s.shipStrict(s.gates, s.reporting("strict"), pos)
		if err == nil {
			s.report("strict", nil)
			return nil
		}
		if s.gates.Err() != nil {
			return s.gateError()
		}
		s.report("strict", err)
		retry.tried(err)
		if !waitFor(s.gates, retry.delay(), nil) {
			return s.gateError()
		}
	}
}

// shipStrict ships up to pos. It publishes too if a write before pos is in no segment.
func (s *Store) shipStrict(ctx context.Context, b Bucket, pos shale.LogPosition) error {
	if err := s.ship.mu.take(ctx); err != nil {
		return err
	}
	s.ledger.cut()
	var err error
	if pos.Synced < pos.Written { // a batch that chose a lesser durability for itself
		pos, err = s.durable()
	}
	if err == nil {
		err = s.shipTo(ctx, b, pos)
	}
	// publishAll takes this lock itself, after its own.
	s.ship.mu.release()
	if err != nil || !s.lacksTables() {
		return err
	}
	return s.publishAll(ctx, b)
}

// gateError is what the gate returns when it does not wait any longer. The write is not acknowledged; if the store is only
// closed, the next Open ships it all the same.
func (s *Store) gateError() error {
	if err := s.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: the write is on the local disk and not in the bucket", ErrClosed)
}

package harness

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
)

// This file has a follower that copies a store by its feed of changes.

// keepsAll is a KeepLog that keeps the logs of any life.
const keepsAll = 1 << 40

// A feedCopy is a copy of the store of a life. It outlives the store: when that is closed, killed, crashed and opened
// again, it goes on behind the last change that it has.
type feedCopy struct {
	place atomic.Pointer[feedPlace] // nil: it has not begun; crashes look at it
	// whole says that no opening since it began has let logs go, and that no crash or fault has lost any.
	whole bool
}

// A feedPlace is what a copy has, and the number of the last change that it has.
type feedPlace struct {
	has   State
	after uint64
}

// drawFeed writes something, and has the copy catch up, or come a few changes nearer.
func drawFeed(s *Source) Step {
	w := s.Write(1)
	w.Own, w.Durability = true, shale.SyncEach // it is the end of what the copy has to wait for
	most := 1 << 30
	if s.IntN(3) == 0 {
		most = 1 + s.IntN(20)
	}
	write := drawWrite("feed", w)
	return Step{Name: "feed", Args: fmt.Sprint(most, " changes; ", write.Args), Life: func(l *Life) error { return l.feed(write, most) }}
}

// feed does the write, and has the copy take up to so many changes. If that is all, it must be what the store holds.
func (l *Life) feed(write Step, most int) error {
	refused := l.gate.Refused.Load()
	if err := l.Do(write); err != nil || l.Blind || l.DB == nil || l.real.Err != nil || l.DB.Err() != nil || l.gate.Refused.Load() > refused {
		return err
	}
	if err := l.DB.Sync(); err != nil { // a write of nothing has synced nothing
		return l.excused(err)
	}
	begin := func() error {
		has, err := Read(l.DB)
		if err == nil {
			l.Model.noEarlier() // what is over now is not in the copy
			l.copied.place.Store(&feedPlace{has, shale.ShippingOf(l.DB).Position().LastSeq})
			l.copied.whole = l.Opts.KeepLog >= keepsAll && l.Excuses == nil
		}
		return l.excused(err)
	}
	if l.copied.place.Load() == nil {
		return begin()
	}
	caughtUp, err := copyChanges(l.DB, l.copied.place.Load(), most, l.copied.place.Store)
	switch {
	case errors.Is(err, shale.ErrChangesGone) && !l.copied.whole:
		return begin()
	case err != nil:
		return l.excused(fmt.Errorf("the feed after number %d: %w", l.copied.place.Load().after, err))
	case !caughtUp:
		return nil
	}
	has, err := Read(l.DB)
	if err == nil {
		err = has.Diff(l.copied.place.Load().has.At(timeOf(l.DB)))
	}
	return l.excused(err)
}

// excused returns nil if the life has caused err itself.
func (l *Life) excused(err error) error {
	if err != nil && l.Excuses != nil && l.Excuses(err) {
		return nil
	}
	return err
}

// copyChanges takes up to so many changes of db behind the place of a copy, and calls to with its place after each. It
// reports whether those were all. Requires: the newest write is durable, and nobody else writes.
func copyChanges(db *shale.DB, at *feedPlace, most int, to func(*feedPlace)) (all bool, err error) {
	last := shale.ShippingOf(db).Position().LastSeq
	if at.after == last {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for c, err := range db.Changes(ctx, at.after) {
		if err != nil {
			return false, err
		}
		if c.Last < at.after || c.Seq <= at.after {
			return false, fmt.Errorf("change %d-%d comes after number %d", c.Seq, c.Last, at.after)
		}
		b := at.has.builder()
		for op := range c.Ops() {
			b.apply(op)
		}
		at = &feedPlace{b.State, c.Last}
		if to(at); c.Last >= last {
			return true, nil
		}
		if most--; most == 0 {
			return false, nil
		}
	}
	return false, errors.New("the feed has ended without an error")
}

// check checks that the copy can go on after a crash: nothing that it has was taken back, and it becomes what the store
// holds. at is nil if there is no copy.
func (at *feedPlace) check(db *shale.DB) error {
	if at == nil {
		return nil
	}
	if err := db.Sync(); err != nil {
		return err
	}
	_, err := copyChanges(db, at, 1<<30, func(p *feedPlace) { at = p })
	switch {
	case errors.Is(err, shale.ErrChangesGone):
		return nil
	case err != nil:
		return fmt.Errorf("the feed after number %d: %w", at.after, err)
	}
	has, err := Read(db)
	if err == nil {
		err = has.Diff(at.has.At(timeOf(db)))
	}
	if err != nil {
		return fmt.Errorf("the copy at number %d: %w", at.after, err)
	}
	return nil
}

package shale

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// This file has View and Update, which run a function in a transaction.

// View runs fn on a snapshot of the store, and returns fn's error. Nothing that is read is remembered; writes give
// ErrReadOnly.
func (db *DB) View(fn func(tx *Txn) error) error {
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer tx.Discard()
	return fn(tx)
}

const (
	// maxTries is how often Update runs a function in its lane. Whoever loses so often changes by other means, within the
	// function, what it has read.
	maxTries   = 100
	firstPause = 50 * time.Microsecond // of an Update that has lost in its lane; the next ones are twice as long each
	lastPause  = 10 * time.Millisecond
)

// Update runs fn in a serializable transaction and commits it if fn returns nil; else it returns fn's error, and nothing
// is written. When another writer has changed what fn has read, fn runs again on a newer state, until it commits, fails,
// or ctx is done: so fn must have no other effects, and must not end tx itself. An Update in fn is another transaction,
// and independent. If fn itself changes what it has read other than by tx, Update ends with ErrConflict after 100 tries.
func (db *DB) Update(ctx context.Context, fn func(tx *Txn) error) error {
	var leave func()
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	for tries := 0; ; tries++ {
		key, err := db.tryUpdate(ctx, fn, tries == 0)
		if key == nil || tries == maxTries {
			return err
		}
		if leave == nil {
			leave = db.commits.Tail().Lanes.Enter(ctx, key)
		} else if !db.life.Sleep(pause(tries)) {
			return ErrClosed
		}
		if err := base.ContextError(ctx); err != nil {
			return err
		}
	}
}

// tryUpdate runs fn once. If that lost a conflict, or gave way to another Update, it returns the key.
func (db *DB) tryUpdate(ctx context.Context, fn func(tx *Txn) error, first bool) (conflict []byte, err error) {
	if err := base.ContextError(ctx); err != nil {
		return nil, err
	}
	tx, err := db.Begin(true)
	if err != nil {
		return nil, err
	}
	defer tx.Discard() // also if fn panics
	if first {
		tx.givesWay = ctx
	}
	if err := fn(tx); err != nil {
		return nil, err
	}
	if !tx.ended && tx.missed != nil && tx.batch.Len() > 0 && db.commits.Tail().Lanes.Taken(tx.missed) {
		return tx.missed, ErrConflict
	}
	err = tx.Commit(ctx)
	if c, ok := err.(*conflictError); ok {
		return c.key, err
	}
	return nil, err
}

// giveWay lets those come first that are in the lane of key, if nothing was read yet: then the transaction begins again
// afterwards. A later read does not wait, because what was read before would be out of date by then: in place of its
// commit the transaction enters the lane, and tries again. Without that, whoever loses could lose for ever: one that
// has just won begins as soon as its write is visible, and a sync lasts longer than a transaction.
func (tx *Txn) giveWay(key []byte) error {
	lanes := &tx.db.commits.Tail().Lanes
	if !lanes.Taken(key) {
		return nil
	}
	if tx.looked {
		tx.missed = append([]byte{}, key...)
		return nil
	}
	tx.lane = lanes.Enter(tx.givesWay, key)
	tx.givesWay = nil
	_ = tx.snapshot.Close() // it is open
	tx.reading.At = tx.db.commits.Tail().Mark()
	if err := tx.db.openSnapshot(&tx.snapshot); err != nil {
		return err
	}
	tx.snapshot.closed.Store(false)
	return nil
}

// pause returns how long an Update waits that has lost tries times, with jitter.
func pause(tries int) time.Duration {
	d := min(firstPause<<min(tries, 20), lastPause)
	return d/2 + rand.N(d/2)
}

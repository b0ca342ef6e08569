package shale

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/shaledb/shale/internal/base"
)

// This file has View and Update, which run a function in a transaction.

// View runs fn on a snapshot of the store, and returns fn's error. Nothing that is read is remembered; writes give
// [ErrReadOnly].
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

// Update runs fn in a serializable transaction and commits it if fn returns nil; else it returns fn's error, and
// nothing is written. When another writer has changed what fn has read, fn runs again on a newer state, until it
// commits, fails, or ctx is done: so fn must have no other effects, and must not end tx itself. An Update in fn is
// another transaction, and independent. If fn itself changes what it has read other than by tx, as such an inner Update
// does on the same keys, Update ends with [ErrConflict] after 100 tries, which take some seconds.
func (db *DB) Update(ctx context.Context, fn func(tx *Txn) error) error {
	lanes := &db.commits.Tail().Lanes
	var lane []byte // a key of the lane that it is in
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
			lane, leave = key, lanes.Enter(ctx, key)
		} else if lanes.Lost(lane); !db.life.Sleep(pause(tries)) {
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
	if !tx.ended && tx.missed != nil && tx.batch.Len() > 0 && db.comesFirst(tx.missed) {
		db.counters.txnConflicts.Add(1)
		return tx.missed, ErrConflict
	}
	err = tx.Commit(ctx)
	if c, ok := err.(*conflictError); ok {
		return c.key, err
	}
	return nil, err
}

// comesFirst reports whether somebody is in the lane of key whom others let come first. Where writes are synced before
// they are visible, that is everybody who is there: one that has just won begins as soon as its write is visible, and a
// sync lasts longer than a transaction, so whoever has lost could lose for ever. Else it is who has lost in the lane too:
// most do not, and to take turns costs more than a second try.
func (db *DB) comesFirst(key []byte) bool {
	lanes := &db.commits.Tail().Lanes
	if db.opts.Durability == SyncEach {
		return lanes.Taken(key)
	}
	return lanes.Losing(key)
}

// giveWay waits for the lane of key if somebody there comes first and nothing was read yet: then the transaction begins
// again afterwards. A later read does not wait, because what was read before would be out of date by then: in place of
// its commit the transaction enters the lane, and tries again.
func (tx *Txn) giveWay(key []byte) error {
	if !tx.db.comesFirst(key) {
		return nil
	}
	if tx.looked {
		tx.missed = append([]byte{}, key...)
		return nil
	}
	tx.lane = tx.db.commits.Tail().Lanes.Enter(tx.givesWay, key)
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

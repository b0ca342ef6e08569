package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// A Txn is a transaction of a group: a shale.Reader and a shale.Writer that sees this member's state as it was when its
// function began, and its own writes. It is for that function only, and for one goroutine at a time; its iterators too.
// Keys that belong to the group are not there, and writes of them give [ErrReservedKey].
type Txn struct {
	stateReader
	tx   *shale.Txn
	ends map[string]int64 // keys that PutUntil has set last, and when their values expire
}

var (
	_ shale.Reader = (*Txn)(nil)
	_ shale.Writer = (*Txn)(nil)
)

// Put sets the value of key when the transaction is written.
func (t *Txn) Put(key, value []byte) error {
	if reserved(key) {
		return errReserved(key)
	}
	return t.tx.Put(key, value)
}

// PutTTL sets the value of key, when the transaction is written, until ttl has passed: as if key was deleted then. The time
// begins when the group writes the transaction; for the transaction itself, at the time of the state that it reads.
func (t *Txn) PutTTL(key, value []byte, ttl time.Duration) error {
	if reserved(key) {
		return errReserved(key)
	}
	delete(t.ends, string(key))
	return t.tx.PutTTL(key, value, ttl)
}

// PutUntil sets the value of key, when the transaction is written, until a time of the group's: as if key was deleted then. With
// what ExpiresAt has returned, a value that changes keeps its end to the millisecond, whatever the clocks of members show.
// If the time is over when the group writes the transaction, the value is never seen.
func (t *Txn) PutUntil(key, value []byte, until time.Time) error {
	if reserved(key) {
		return errReserved(key)
	}
	if t.ends == nil {
		t.ends = make(map[string]int64)
	}
	t.ends[string(key)] = base.ClampExpiry(until.UnixMilli())
	return shale.Op{Kind: shale.OpPut, Key: key, Value: value, ExpiresAt: until}.Apply(t.tx)
}

// Delete removes key when the transaction is written. Deleting an absent key is no error.
func (t *Txn) Delete(key []byte) error {
	if reserved(key) {
		return errReserved(key)
	}
	return t.tx.Delete(key)
}

// DeleteRange removes the keys from lower to upper, which is exclusive, when the transaction is written; nil: there is no
// bound. Keys that belong to the group stay.
func (t *Txn) DeleteRange(lower, upper []byte) error {
	if reserved(lower) {
		return errReserved(lower)
	}
	return t.tx.DeleteRange(lower, belowReserved(upper))
}

// Untracked returns the same reader, but what is read by way of it can't conflict, as with shale.Txn.
func (t *Txn) Untracked() shale.Reader {
	return stateReader{all: t.tx.Untracked().(reader)}
}

const (
	// maxTries is how often Update runs a function again. Whoever loses so often changes by other means, within the function,
	// what it has read: of several that have read the same state, the first in the log wins.
	maxTries   = 100
	firstPause = 50 * time.Microsecond // of an Update that has lost again; the next ones are twice as long each
	lastPause  = 10 * time.Millisecond
)

// Update runs fn in a transaction, and writes what fn has written if fn returns nil; else it returns fn's error, and
// nothing is written. Transactions, writes and reads of the group are linearizable. fn reads this member's state, which
// has every write that was acknowledged before Update was called, and the members write only if fn would read the same
// at that place of their order. When another write has changed that, fn runs again on a newer state, until it is
// written, fails, or ctx is done: so fn must have no other effects. If fn itself changes what it has read by other
// means than tx, Update ends with shale.ErrConflict after 100 tries.
//
// The errors are fn's, or those of Write: after one that wraps [ErrUnknown] the transaction has happened, will, or
// never does. On a member that does not lead, writes need [Options.Forward]. A function that writes nothing costs what
// Read does.
//
// All members look up what fn has read when they write. So reads are limited ([ErrReadTooMuch]); the writes, with the
// keys that were read, to 64 MiB.
func (n *Node) Update(ctx context.Context, fn func(tx *Txn) error) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	var leave func() // the lane of the key over which the last run was lost
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	for tries := 0; ; tries++ {
		key, err := n.tryUpdate(ctx, fn)
		if key == nil || tries == maxTries {
			return err
		}
		if leave == nil {
			leave = n.lanes.Enter(ctx, key)
			continue
		}
		d := min(firstPause<<min(tries, 20), lastPause)
		select {
		case <-time.After(d/2 + rand.N(d/2)):
		case <-ctx.Done(): // the next try finds out
		case <-n.stopping: // likewise
		}
	}
}

// tryUpdate runs fn once. If that lost a conflict, it returns a key of it.
func (n *Node) tryUpdate(ctx context.Context, fn func(tx *Txn) error) (conflict []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := n.awaitNewest(ctx); err != nil {
		return nil, err
	}
	cmd, err := n.state.transact(fn)
	if err != nil || cmd == nil {
		return nil, err
	}
	switch res, err := n.submit(ctx, cmd); {
	case err != nil:
		return nil, err
	case res.Lost > 0:
		key, text := aboutLost(cmd, res.Lost)
		return key, fmt.Errorf("cluster: update: %w: another has written %s, which the transaction had read", shale.ErrConflict, text)
	case !res.Done:
		return nil, unknown(errors.New("there is no verdict"))
	}
	return nil, nil
}

// transact runs fn on the state, and returns the command that writes what fn has written; nil: nothing.
func (s *state) transact(fn func(tx *Txn) error) (cmd []byte, err error) {
	st := s.hold()
	defer st.unpin()
	tx, err := st.db.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("cluster: update: %w", err)
	}
	defer tx.Discard() // also if fn panics
	t := &Txn{stateReader: stateReader{all: tx}, tx: tx}
	if err := fn(t); err != nil {
		return nil, err
	}
	f, err := shale.FootprintOf(tx)
	if err != nil || f.Writes.Len() == 0 {
		return nil, err
	}
	o, err := observe(&f, st.time.last.Load() > 0)
	if err != nil {
		return nil, fmt.Errorf("cluster: update: %w", err)
	}
	return encodeUpdate(&o, f.Writes, st.time.now.Load(), t.ends)
}

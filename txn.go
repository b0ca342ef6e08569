package shale

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/commit"
	"github.com/shaledb/shale/internal/spans"
	"github.com/shaledb/shale/internal/txn"
)

// This file has Txn, a transaction: how it begins and ends, what it reads and what it writes.

// A Txn is a transaction: a Reader and a Writer that sees the store as it was at its beginning, and its own writes. It
// is serializable: transactions have the effect of running one after the other. Its writes become visible together with
// Commit, which fails with [ErrConflict] if another writer has changed what the transaction has read, scans and the
// gaps between their entries included. What was only written does not conflict. A transaction without writes never
// fails.
//
// Until then its writes are in memory, and have at most [MaxBatchSize] bytes: [ErrValueTooLarge] says that they are
// more. Such work has to be cut into transactions of its own, or into batches if it reads nothing, or go to
// [DB.Ingest].
//
// A Txn, and the iterators that it returns, are for one goroutine at a time. Iterators see the writes of the time when
// they were made, and end with the transaction. Until its end old versions of what is overwritten are kept.
type Txn struct {
	// The algorithm is optimistic concurrency control with backward validation (H. T. Kung, J. T. Robinson, On Optimistic
	// Methods for Concurrency Control, 1981): the order of commits is the serial order. See commit.Tail for the comparison.

	db       *DB
	snapshot Snapshot
	writable bool
	ended    bool
	busy     bool // a call is under way: a cheap check for a second goroutine
	iterated bool // iterators may still use own
	looked   bool // the snapshot was used

	*txnWork // nil after the end, and of a transaction that can't write
}

// A txnWork is what a transaction that can write remembers. Those that no iterator has seen are used again.
type txnWork struct {
	batch   Batch
	own     txn.Overlay // of what is in batch
	deleted *spans.Set  // the range deletes in batch; they do not cover own. Their numbers mean nothing
	reads   txn.ReadSet
	watches []*txn.Watch // of iterators that are open, and some others
	reading commit.Reading

	// Of the first try of an Update.
	givesWay context.Context // of the Update; nil: it gives way to nobody, or has done so
	lane     func()          // leaves the lane that it has waited for; nil: it is in none
	missed   []byte          // a key that was read while somebody was in its lane, too late to give way; nil: none
}

var txnWorks = sync.Pool{New: func() any { return new(txnWork) }}

// free makes w empty, and gives it back to the pool unless it is large.
func (w *txnWork) free() {
	if cap(w.batch.data) > maxPooledBatch {
		return
	}
	w.batch.Reset()
	w.own.Reset()
	w.deleted = nil
	w.reads.Reset()
	w.reading = commit.Reading{}
	w.givesWay, w.lane, w.missed = nil, nil, nil
	txnWorks.Put(w)
}

// Begin begins a transaction by hand. It has to be ended, with Commit or Discard; [DB.Update] and [DB.View] do that
// themselves. If it is not writable, its writes give [ErrReadOnly]. A writable one is refused with ErrReadOnly if the
// store was opened read-only, or takes no writes.
func (db *DB) Begin(writable bool) (*Txn, error) {
	var at commit.Mark
	if writable {
		if err := db.writable(); err != nil {
			return nil, err
		}
		at = db.commits.Tail().Open() // before the number of the snapshot is taken
	}
	tx := &Txn{db: db, writable: writable}
	take := db.openSnapshot
	if !writable && !db.opts.ReadOnly {
		take = db.pinSnapshot
	}
	if err := take(&tx.snapshot); err != nil {
		if writable {
			db.commits.Tail().Close()
		}
		return nil, err
	}
	if writable {
		tx.txnWork = txnWorks.Get().(*txnWork)
		tx.reading.At = at
	}
	return tx, nil
}

var (
	// ErrConflict is wrapped by the error of a Commit whose transaction has read what another writer has changed since.
	// Nothing was written. The message names a key and the number of its write.
	ErrConflict = errors.New("shale: conflict")

	// ErrTxnDone is returned by every use of a transaction, or of an iterator of it, after its end.
	ErrTxnDone = errors.New("shale: the transaction has ended")

	errTxnShared = errors.New("shale: a transaction is used by two goroutines at a time")
)

// enter begins a call, which leave ends. A function of the caller runs outside of both.
func (tx *Txn) enter() error {
	switch {
	case tx.busy:
		return errTxnShared
	case tx.ended:
		return ErrTxnDone
	}
	tx.busy = true
	return nil
}

func (tx *Txn) leave() { tx.busy = false }

// Seq returns the number of the last write that the transaction sees, besides its own.
func (tx *Txn) Seq() uint64 {
	tx.looked = true
	return tx.snapshot.Seq()
}

// SetDurability is [Batch.SetDurability] for the writes of the transaction. If it has ended or can't write, nothing
// happens.
func (tx *Txn) SetDurability(d Durability) {
	if tx.txnWork != nil {
		tx.batch.SetDurability(d)
	}
}

// Put sets the value of key when the transaction commits. The error wraps [ErrValueTooLarge], too, if the writes of
// the transaction would have more than [MaxBatchSize] bytes.
func (tx *Txn) Put(key, value []byte) error {
	return tx.write(key, func() error { return tx.batch.Put(key, value) })
}

// Delete removes key when the transaction commits. Deleting an absent key is no error.
func (tx *Txn) Delete(key []byte) error {
	return tx.write(key, func() error { return tx.batch.Delete(key) })
}

func (tx *Txn) write(key []byte, add func() error) error {
	if err := tx.mayWrite(); err != nil {
		return err
	}
	defer tx.leave()
	at := max(len(tx.batch.data), batchHeader)
	if err := add(); err != nil {
		return err
	}
	tx.own.Add(tx.batch.data, at, key)
	return nil
}

// DeleteRange removes the keys from lower to upper, which is exclusive, when the transaction commits; nil: there is no
// bound. It takes time in proportion to the keys of the range that the transaction itself has
// written.
func (tx *Txn) DeleteRange(lower, upper []byte) error {
	if err := tx.mayWrite(); err != nil {
		return err
	}
	defer tx.leave()
	n := tx.batch.Len()
	if err := tx.batch.DeleteRange(lower, upper); err != nil || tx.batch.Len() == n {
		return err
	}
	tx.own.DeleteRange(tx.batch.data, lower, upper)
	tx.deleted = tx.deleted.With(lower, upper, 1)
	return nil
}

// mayWrite is enter for a call that writes.
func (tx *Txn) mayWrite() error {
	if err := tx.enter(); err != nil {
		return err
	}
	if !tx.writable {
		tx.leave()
		return fmt.Errorf("%w: a transaction of View or Begin(false) takes no writes", ErrReadOnly)
	}
	return nil
}

// find looks for key among the transaction's own writes. If it is not there, the caller asks the snapshot, and the key
// counts as read if track is set.
func (tx *Txn) find(key []byte, track bool) (w ownWrite, own bool, err error) {
	if err := tx.enter(); err != nil {
		return w, false, err
	}
	defer tx.leave()
	if !tx.writable {
		return w, false, nil
	}
	value, kind, own := tx.own.Find(key)
	if own {
		return tx.ownWrite(kind, value), true, nil
	}
	if tx.deleted.Cover(key, base.MaxSeq) > 0 {
		return w, true, nil
	}
	if track {
		if tx.givesWay != nil {
			if err := tx.giveWay(key); err != nil {
				return w, false, err
			}
		}
		tx.reads.AddKey(key)
	}
	tx.looked = true
	return w, false, nil
}

// An ownWrite is what a transaction has written to a key, as it sees that.
type ownWrite struct {
	value  []byte
	expiry int64 // 0: never
	live   bool
}

// ownWrite returns what the transaction sees of what it has written.
func (tx *Txn) ownWrite(kind base.Kind, value []byte) (w ownWrite) {
	w.value, w.live = value, kind != base.KindDelete
	if kind == base.KindExpiring {
		w.expiry, w.value = base.CutExpiry(value)
		w.live = !tx.db.snapshots.Clock.Over(w.expiry, tx.snapshot.held.AsOf)
	}
	return w
}

// A txnReader is a Txn as a Reader. It notes what is read, or not.
type txnReader struct {
	tx    *Txn
	track bool
}

// Untracked returns a Reader of the same state whose reads can't conflict: another writer may have changed what it has
// shown, and Commit succeeds all the same (snapshot isolation).
func (tx *Txn) Untracked() Reader { return txnReader{tx, false} }

func (tx *Txn) tracked() txnReader { return txnReader{tx, true} }

// Get returns a copy of the value of key, which the caller owns, or [ErrNotFound].
func (tx *Txn) Get(key []byte) ([]byte, error) { return tx.tracked().Get(key) }

// AppendValue appends the value of key to dst and returns the longer slice, or dst as it was and [ErrNotFound].
func (tx *Txn) AppendValue(dst, key []byte) ([]byte, error) {
	return tx.tracked().AppendValue(dst, key)
}

// ViewValue calls fn with the value of key, uncopied: it is valid until fn returns and must not be changed. It returns
// fn's error, or [ErrNotFound] without a call. fn may use the transaction, but a write or its end ends the validity
// of value.
func (tx *Txn) ViewValue(key []byte, fn func(value []byte) error) error {
	return tx.tracked().ViewValue(key, fn)
}

// Has reports whether key is there, without reading its value.
func (tx *Txn) Has(key []byte) (bool, error) { return tx.tracked().Has(key) }

// Scan walks the entries of r in order. An [Entry] is valid until the next step. An error ends the loop and is yielded
// once, with a zero Entry. Leaving the loop early releases everything.
func (tx *Txn) Scan(r Range) iter.Seq2[Entry, error] { return tx.tracked().Scan(r) }

// NewIterator returns a cursor over the entries of r, which must be closed.
func (tx *Txn) NewIterator(r Range) *Iterator { return tx.tracked().NewIterator(r) }

// GetMany is [DB.GetMany] at the state of the transaction.
func (tx *Txn) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	return tx.tracked().GetMany(keys, fn)
}

func (r txnReader) Get(key []byte) ([]byte, error) {
	w, own, err := r.tx.find(key, r.track)
	switch {
	case err != nil:
		return nil, err
	case !own:
		return r.tx.snapshot.Get(key)
	case !w.live:
		return nil, ErrNotFound
	}
	return cloneNonNil(w.value), nil
}

func (r txnReader) AppendValue(dst, key []byte) ([]byte, error) {
	w, own, err := r.tx.find(key, r.track)
	switch {
	case err != nil:
		return dst, err
	case !own:
		return r.tx.snapshot.AppendValue(dst, key)
	case !w.live:
		return dst, ErrNotFound
	}
	return append(dst, w.value...), nil
}

func (r txnReader) ViewValue(key []byte, fn func(value []byte) error) error {
	w, own, err := r.tx.find(key, r.track)
	switch {
	case err != nil:
		return err
	case !own:
		return r.tx.snapshot.ViewValue(key, fn)
	case !w.live:
		return ErrNotFound
	}
	return fn(w.value)
}

func (r txnReader) Has(key []byte) (bool, error) {
	w, own, err := r.tx.find(key, r.track)
	if err != nil || own {
		return w.live, err
	}
	return r.tx.snapshot.Has(key)
}

func (r txnReader) Scan(rng Range) iter.Seq2[Entry, error] { return scan(rng, r.NewIterator, false) }

func (r txnReader) NewIterator(rng Range) *Iterator {
	if err := r.tx.enter(); err != nil {
		return failedIterator(err)
	}
	defer r.tx.leave()
	s := &r.tx.snapshot
	return s.db.newIterator(s.acquireAll(), rng, s.held, r.cursor())
}

// cursor returns what a cursor of the transaction has besides that of a snapshot.
func (r txnReader) cursor() *inTxn {
	in := &inTxn{ended: &r.tx.ended}
	if !r.tx.writable {
		return in
	}
	r.tx.iterated, r.tx.looked = true, true
	if r.tx.own.Len() > 0 {
		in.own = r.tx.own.NewIterator()
	}
	in.deleted = r.tx.deleted
	if r.track {
		w := r.tx.reads.NewWatch()
		r.tx.watches = append(slices.DeleteFunc(r.tx.watches, (*txn.Watch).Ended), w)
		in.watch = w
	}
	return in
}

func (r txnReader) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	own := make([]int, 0, 8) // indexes of keys that the transaction has written
	for i, key := range keys {
		_, is, err := r.tx.find(key, r.track)
		if err != nil {
			return err
		}
		if is {
			own = append(own, i)
		}
	}
	_, err := r.tx.db.getMany(keys, func(i int, value []byte, found bool) error {
		if len(own) > 0 && own[0] == i {
			own = own[1:]
			w, _, err := r.tx.find(keys[i], false)
			if err != nil {
				return err
			}
			if value, found = nil, w.live; found {
				value = w.value
			}
		}
		if err := fn(i, value, found); err != nil || !r.tx.ended {
			return err
		}
		return ErrTxnDone // fn has ended it
	}, &r.tx.snapshot, new(string))
	return err
}

// Discard ends the transaction, and nothing is written. After Commit it does nothing.
func (tx *Txn) Discard() {
	if tx.ended {
		return
	}
	tx.ended = true
	_ = tx.snapshot.Close() // it is open
	if tx.writable {
		tx.db.commits.Tail().Close()
		if tx.lane != nil {
			tx.lane()
		}
		if !tx.iterated {
			tx.free()
		}
		tx.txnWork = nil
	}
}

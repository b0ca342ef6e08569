package remote

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/shaledb/shale"
)

// The reads of a Reader. Each goes to the handle of that moment. If a table that it needs was collected behind its back, it is made
// again from the newest state. The store itself fetches again what was damaged on its way.

var _ shale.Reader = (*Reader)(nil)

// reload makes the Reader go on from the newest state.
func (r *Reader) reload(ctx context.Context) error {
	ctx, cancel := r.untilClose(ctx)
	defer cancel()
	if err := r.lockPolls(ctx); err != nil {
		return err
	}
	defer r.polling.release()
	if _, err := r.follow.reload(ctx); err != nil {
		return err
	}
	r.advance = true
	return r.showNew(ctx)
}

// retried calls read, and once more if a table was collected that the newest state does not need.
func retried[T any](r *Reader, read func(db *shale.DB) (T, error)) (T, error) {
	v, err := read(r.db.Load())
	if err == nil || err == shale.ErrNotFound {
		return v, err
	}
	if errors.Is(err, ErrSnapshotGone) && r.reload(r.ctx) == nil {
		v, err = read(r.db.Load()) // the reload may have opened another handle
	}
	return v, r.causeOf(err)
}

// causeOf returns what a caller gets whose read has failed with err.
func (r *Reader) causeOf(err error) error {
	if err != nil && r.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return shale.ErrClosed
	}
	return err
}

// Get returns a copy of the value of key, which the caller owns, or [shale.ErrNotFound].
func (r *Reader) Get(key []byte) ([]byte, error) {
	return retried(r, func(db *shale.DB) ([]byte, error) { return db.Get(key) })
}

// AppendValue appends the value of key to dst and returns the longer slice, or dst as it was and
// [shale.ErrNotFound].
func (r *Reader) AppendValue(dst, key []byte) ([]byte, error) {
	return retried(r, func(db *shale.DB) ([]byte, error) { return db.AppendValue(dst, key) })
}

// ViewValue calls fn with the value of key, uncopied: it is valid until fn returns and must not be changed. It
// returns fn's error, or [shale.ErrNotFound] without a call.
func (r *Reader) ViewValue(key []byte, fn func(value []byte) error) error {
	var failed error // that of fn, which is returned as it is
	_, err := retried(r, func(db *shale.DB) (struct{}, error) {
		return struct{}{}, db.ViewValue(key, func(value []byte) error {
			// An error of the program is none of the store and must not repeat the read. So it
			// takes its own way out.
			failed = fn(value)
			return nil
		})
	})
	if failed != nil {
		return failed
	}
	return err
}

// Has reports whether key is there, without reading its value.
func (r *Reader) Has(key []byte) (bool, error) {
	found, err := r.db.Load().Has(key)
	if err == nil {
		return found, nil // an absent key allocates nothing
	}
	return retried(r, func(db *shale.DB) (bool, error) { return db.Has(key) })
}

// ExpiresAt returns when the value of key expires, the zero time if never, or [shale.ErrNotFound].
func (r *Reader) ExpiresAt(key []byte) (time.Time, error) {
	return retried(r, func(db *shale.DB) (time.Time, error) { return db.ExpiresAt(key) })
}

// MayContain reports whether key may be there, as shale.DB.MayContain does: without a request.
func (r *Reader) MayContain(key []byte) bool { return r.db.Load().MayContain(key) }

// MayContainMany sets out[i] to MayContain(keys[i]), as shale.DB.MayContainMany does.
func (r *Reader) MayContainMany(keys [][]byte, out []bool) { r.db.Load().MayContainMany(keys, out) }

// GetMany looks up many keys, as shale.DB.GetMany does. Blocks that have to be fetched are fetched several at a time.
func (r *Reader) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	return r.causeOf(r.db.Load().GetMany(keys, fn))
}

// Scan walks the entries of rg in order. An Entry is valid until the next step. An error ends the loop and is yielded
// once, with a zero Entry. It shows one state, whatever comes meanwhile. A scan that takes longer than the writer keeps
// old states may end with [ErrSnapshotGone]; that of a [Snapshot] does not.
func (r *Reader) Scan(rg shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		for e, err := range r.db.Load().Scan(rg) {
			if !yield(e, r.causeOf(err)) {
				return
			}
		}
	}
}

// NewIterator returns a cursor over the entries of rg, which must be closed. It shows one state, as Scan does.
func (r *Reader) NewIterator(rg shale.Range) *shale.Iterator { return r.db.Load().NewIterator(rg) }

// View runs fn on one state, as shale.DB.View does. It makes no request for that, so if it takes longer than the writer
// keeps old states, reads of it may return [ErrSnapshotGone]; those of a Snapshot do not.
func (r *Reader) View(fn func(tx *shale.Txn) error) error { return r.db.Load().View(fn) }

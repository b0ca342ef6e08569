package remote

import (
	"errors"
	"iter"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

var _ shale.Reader = (*Reader)(nil)

// again decides what becomes of the error of a read: err is what the caller gets, and retry says that the
// read may succeed now. attempt counts from 0.
//
//   - Damage may have come on the way. What was fetched of the table is dropped, and once fetched again.
//   - A table that was collected is not needed by the newest state, from which the Reader goes on.
func (r *Reader) again(err error, attempt int) (_ error, retry bool) {
	var c *base.CorruptionError
	switch {
	case err == nil, err == shale.ErrNotFound, err == shale.ErrClosed:
		return err, false
	case errors.Is(err, ErrSnapshotGone) && attempt == 0:
		return err, r.reload() == nil
	case errors.As(err, &c):
		kind, num, ok := base.ParseFileName(c.File)
		if !ok || kind != base.FileTable {
			return err, false
		}
		r.files.forget(uint64(num))
		id := fileID{kind: KindTable, num: uint64(num)}
		return base.Corruption(id.name(), c.Offset, c.Part, c.Err), attempt == 0
	}
	return err, false
}

// reload makes the Reader go on from the newest state.
func (r *Reader) reload() error {
	r.polling.Lock()
	defer r.polling.Unlock()
	if r.ctx.Err() != nil {
		return shale.ErrClosed
	}
	if _, _, err := r.follow.reload(r.ctx); err != nil {
		return err
	}
	if _, err := r.db.Load().Advance(r.ctx); err != nil {
		return err
	}
	return r.shown()
}

// retried calls read, and once more if that may help.
func retried[T any](r *Reader, read func(db *shale.DB) (T, error)) (T, error) {
	for attempt := 0; ; attempt++ {
		v, err := read(r.db.Load())
		err, retry := r.again(err, attempt)
		if !retry {
			return v, err
		}
	}
}

// Get implements shale.Reader.
func (r *Reader) Get(key []byte) ([]byte, error) {
	return retried(r, func(db *shale.DB) ([]byte, error) { return db.Get(key) })
}

// AppendValue implements shale.Reader.
func (r *Reader) AppendValue(dst, key []byte) ([]byte, error) {
	return retried(r, func(db *shale.DB) ([]byte, error) { return db.AppendValue(dst, key) })
}

// ViewValue implements shale.Reader.
func (r *Reader) ViewValue(key []byte, fn func(value []byte) error) error {
	var failed error // that of fn, which is returned as it is
	_, err := retried(r, func(db *shale.DB) (struct{}, error) {
		return struct{}{}, db.ViewValue(key, func(value []byte) error {
			failed = fn(value)
			return nil
		})
	})
	return errors.Join(err, failed)
}

// Has implements shale.Reader.
func (r *Reader) Has(key []byte) (bool, error) {
	for attempt := 0; ; attempt++ {
		found, err := r.db.Load().Has(key)
		if err == nil {
			return found, nil
		}
		err, retry := r.again(err, attempt)
		if !retry {
			return found, err
		}
	}
}

// MayContain reports whether key may be there, as shale.DB.MayContain does: without a request.
func (r *Reader) MayContain(key []byte) bool { return r.db.Load().MayContain(key) }

// MayContainMany sets out[i] to MayContain(keys[i]), as shale.DB.MayContainMany does.
func (r *Reader) MayContainMany(keys [][]byte, out []bool) { r.db.Load().MayContainMany(keys, out) }

// GetMany looks up many keys, as shale.DB.GetMany does. Blocks that have to be fetched are fetched several at a time.
func (r *Reader) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	err := r.db.Load().GetMany(keys, fn)
	if err != nil {
		err, _ = r.again(err, 1)
	}
	return err
}

// Scan implements shale.Reader. It shows one state, whatever comes meanwhile. A scan that takes longer than the
// writer keeps old states may end with ErrSnapshotGone; that of a Snapshot does not.
func (r *Reader) Scan(rg shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		for e, err := range r.db.Load().Scan(rg) {
			if err != nil {
				err, _ = r.again(err, 1) // the entries so far were passed on, so there is no second attempt
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// NewIterator implements shale.Reader. The iterator shows one state, as Scan does.
func (r *Reader) NewIterator(rg shale.Range) *shale.Iterator { return r.db.Load().NewIterator(rg) }

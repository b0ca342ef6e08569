package remote

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// The reads of a Reader. Each goes to the handle of that moment. If it fails in a way that another
// attempt may cure, it is made again: bytes that were damaged on their way, and tables that were
// collected behind its back.

var _ shale.Reader = (*Reader)(nil)

// An attempt lists the places that one read has fetched again, so that none is fetched a third time.
type attempt struct {
	r     *Reader
	tried []damagePlace
}

// again decides what becomes of the error of a read: the result is what the caller gets, and retry says that the
// read may succeed now.
//
//   - Damage may have come on the way. What was fetched of the table is dropped, and once fetched again. A read may
//     meet several such places.
//   - A table that was collected is not needed by the newest state, from which the Reader goes on. That is of no use to
//     a read of an older state.
func (a *attempt) again(err error, newest bool) (_ error, retry bool) {
	var c *base.CorruptionError
	switch {
	case err == nil, err == shale.ErrNotFound, err == shale.ErrClosed:
		return err, false
	case a.r.ctx.Err() != nil && errors.Is(err, context.Canceled):
		return shale.ErrClosed, false
	case errors.Is(err, ErrSnapshotGone):
		return err, newest && a.first(damagePlace{}) && a.r.reload(a.r.ctx) == nil
	case errors.As(err, &c):
		name, ok := object.ParseName(c.File)
		return err, ok && name.Kind == object.KindTable && c.Err != tablefs.ErrNoObject && a.first(damagePlace{name.Num, c.Offset})
	}
	return err, false
}

// A damagePlace is a place of a table.
type damagePlace struct {
	num uint64
	off int64
}

// mostPlaces is how many places of one read are tried again.
// A read that meets more is of a table that is damaged in the bucket, and not on the way.
const mostPlaces = 64

// first reports whether a place was not tried yet, and notes it.
func (a *attempt) first(p damagePlace) bool {
	if slices.Contains(a.tried, p) || len(a.tried) == mostPlaces {
		return false
	}
	a.tried = append(a.tried, p)
	return true
}

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

// retried calls read, and again as long as that may help.
func retried[T any](r *Reader, read func(db *shale.DB) (T, error)) (T, error) {
	v, err := read(r.db.Load())
	if err == nil || err == shale.ErrNotFound {
		return v, err
	}
	// The attempt is made only after an error, so reads that succeed pay nothing for it. The handle
	// is asked for each time, because a reload may have opened another one.
	for a := (attempt{r: r}); ; v, err = read(r.db.Load()) {
		err, retry := a.again(err, true)
		if !retry {
			return v, err
		}
	}
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
	err := r.db.Load().GetMany(keys, fn)
	if err != nil {
		// The bytes of a damaged block are dropped all the same, so that the next call fetches
		// them.
		err, _ = (&attempt{r: r}).again(err, false) // fn has got some, so there is no second attempt
	}
	return err
}

// Scan walks the entries of rg in order. An Entry is valid until the next step. An error ends the loop and is yielded
// once, with a zero Entry. It shows one state, whatever comes meanwhile. A scan that takes longer than the writer keeps
// old states may end with [ErrSnapshotGone]; that of a [Snapshot] does not.
func (r *Reader) Scan(rg shale.Range) iter.Seq2[shale.Entry, error] {
	return func(yield func(shale.Entry, error) bool) {
		s, err := r.db.Load().Snapshot()
		if err != nil {
			yield(shale.Entry{}, err)
			return
		}
		defer s.Close()
		r.scan(s, rg, yield)
	}
}

// scan walks the entries of r. What was damaged on the way is fetched again, and the walk goes on behind the last
// entry that was passed on.
func (r *Reader) scan(s *shale.Snapshot, rg shale.Range, yield func(shale.Entry, error) bool) {
	var last []byte
	for a := (attempt{r: r}); ; {
		var failed error
		n := 0
		for e, err := range s.Scan(rg) {
			if err != nil {
				failed = err
				break
			}
			if !yield(e, nil) {
				return
			}
			// The key belongs to the iterator until its next step, so it is copied.
			last = append(last[:0], e.Key...)
			n++
		}
		if failed == nil {
			return
		}
		err, retry := a.again(failed, false)
		if !retry {
			yield(shale.Entry{}, err)
			return
		}
		rg = behind(rg, last, n)
	}
}

// behind returns the part of a range that is behind n entries of it, of which last was the last.
func behind(rg shale.Range, last []byte, n int) shale.Range {
	if n == 0 {
		return rg
	}
	if rg.Reverse {
		rg.Upper = bytes.Clone(last)
	} else {
		// The least key above last is last with a zero byte behind it.
		rg.Lower = append(bytes.Clone(last), 0)
	}
	if rg.Limit > 0 {
		rg.Limit -= n
	}
	return rg
}

// NewIterator returns a cursor over the entries of rg, which must be closed. It shows one state, as Scan does. If bytes
// were damaged on the way, it ends with the error, and another iterator fetches them again.
func (r *Reader) NewIterator(rg shale.Range) *shale.Iterator { return r.db.Load().NewIterator(rg) }

// View runs fn on one state, as shale.DB.View does. It makes no request for that, so if it takes longer than the writer
// keeps old states, reads of it may return [ErrSnapshotGone]; those of a Snapshot do not. If bytes were damaged on the
// way, a read returns the error, and another one fetches them again.
func (r *Reader) View(fn func(tx *shale.Txn) error) error { return r.db.Load().View(fn) }

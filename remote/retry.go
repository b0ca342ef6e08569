package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"time"
)

// A retryBucket makes the calls of another bucket again when they fail with an error that may pass:
// a server that is busy or away, a connection that is lost. It waits longer each time, and returns the
// last error when its patience is over.
//
// A call that creates an object may have succeeded although its answer was lost. The next attempt
// finds the name taken then. So the object is read back: if it has the bytes of the call, the call
// has succeeded.
type retryBucket struct {
	b Bucket

	first, most time.Duration // the first wait, which doubles each time, up to most
	patience    time.Duration // a call whose first attempt was longer ago is not tried again

	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
}

// checksumTries is how often an object is put whose bytes arrive with a wrong checksum. The bytes may have
// changed on the way, but more likely they are not what the caller says.
const checksumTries = 3

// Retrying returns a bucket that passes its calls to b. It repeats a call that fails with an error that may pass, after
// 50 ms, then twice as long each time up to 5 s, for 30 s in all. An error with a method
// Permanent() bool that returns true is returned at once. A Put that creates an object and whose answer was
// lost succeeds if the object has its bytes. Stores and readers wrap their buckets themselves.
func Retrying(b Bucket) Bucket { return retrying(b) }

// retrying is Retrying.
func retrying(b Bucket) *retryBucket {
	if r, ok := b.(*retryBucket); ok {
		return r
	}
	return &retryBucket{b: b, first: 50 * time.Millisecond, most: 5 * time.Second, patience: 30 * time.Second, now: time.Now, sleep: sleep}
}

// retryingFor is retrying with another patience. It changes nothing of b, which others may use.
func retryingFor(b Bucket, patience time.Duration) *retryBucket {
	r := *retrying(b)
	r.patience = patience
	return &r
}

// sleep waits, and returns early with the error of ctx if that is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// canPass reports whether a call that failed with err may succeed when it is made again. An error that has a
// method Permanent says it itself: a Bucket marks with it that credentials are wrong or that there is
// no such bucket.
func canPass(err error) bool {
	var p interface{ Permanent() bool }
	switch {
	case err == nil, err == io.EOF:
		return false
	case errors.Is(err, ErrExists), errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrChecksum):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &p):
		return !p.Permanent()
	}
	return true
}

// A patience is the waits between the attempts of one call.
type patience struct {
	r        *retryBucket
	begun    time.Time
	wait     time.Duration
	attempts int
}

func (r *retryBucket) patient() *patience { return &patience{r: r, begun: r.now(), wait: r.first} }

// again waits and returns nil if the call that failed with err shall be made again. Otherwise it
// returns the error for the caller.
func (p *patience) again(ctx context.Context, err error) error {
	p.attempts++
	if !canPass(err) {
		return err
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%w (the last attempt: %w)", ctxErr, err)
	}
	if spent := p.r.now().Sub(p.begun); spent+p.wait > p.r.patience {
		return fmt.Errorf("%w (attempt %d, %v after the first)", err, p.attempts, spent.Round(time.Millisecond))
	}
	if ctxErr := p.r.sleep(ctx, p.wait); ctxErr != nil {
		return fmt.Errorf("%w (the last attempt: %w)", ctxErr, err)
	}
	p.wait = min(2*p.wait, p.r.most)
	return nil
}

// do makes a call until it succeeds or its error can't pass.
func (r *retryBucket) do(ctx context.Context, call func() error) error {
	for p := r.patient(); ; {
		err := call()
		if err == nil || err == io.EOF {
			return err
		}
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

func (r *retryBucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if err := begin(ctx, name); err != nil {
		return callError("put", name, err)
	}
	mayBeThere := false // an earlier attempt may have made the object
	for p := r.patient(); ; {
		err := r.b.Put(ctx, name, body, size, crc32c, absent)
		if errors.Is(err, ErrExists) && mayBeThere {
			return r.compare(ctx, name, body, size, crc32c, err)
		}
		if errors.Is(err, ErrChecksum) && p.attempts < checksumTries-1 {
			p.attempts++
			continue
		}
		if err == nil {
			return nil
		}
		mayBeThere = mayBeThere || canPass(err)
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

// compare returns nil if the object that is there has the bytes of body, and otherwise taken, the
// error that says that its name is taken. Bits may flip on the way here. So other bytes than those of
// body count only if they have the object's checksum, and are read again if not.
func (r *retryBucket) compare(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, taken error) error {
	info, err := r.Stat(ctx, name)
	if err != nil || info.Size != size || info.CRC32C != crc32c {
		return errors.Join(taken, ignoreAbsence(err))
	}
	for range checksumTries {
		same, sum, err := r.readBack(ctx, name, body, size, taken)
		switch {
		case err != nil:
			return err
		case same:
			return nil
		case sum == crc32c:
			return taken
		}
	}
	return callError("put", name, fmt.Errorf("%w of what is read back; it may be there", ErrChecksum))
}

// readBack reads an object of size bytes. It reports whether these are those of body, and returns the
// crc32c of what it has read. The error is that of compare.
func (r *retryBucket) readBack(ctx context.Context, name string, body io.ReaderAt, size int64, taken error) (same bool, sum uint32, err error) {
	const part = 1 << 20
	ours, theirs := make([]byte, min(part, size)), make([]byte, min(part, size))
	same = true
	for off := int64(0); off < size; off += part {
		n := min(part, size-off)
		if _, err := r.ReadAt(ctx, name, theirs[:n], off); err != nil {
			return false, 0, errors.Join(taken, ignoreAbsence(err))
		}
		if got, err := body.ReadAt(ours[:n], off); int64(got) < n {
			return false, 0, callError("put", name, fmt.Errorf("read the body: %w", err))
		}
		same = same && bytes.Equal(ours[:n], theirs[:n])
		sum = crc32.Update(sum, castagnoli, theirs[:n])
	}
	return same, sum, nil
}

// ignoreAbsence returns err, but nil if it says that an object is not there.
func ignoreAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *retryBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = r.do(ctx, func() error {
		n, err = r.b.ReadAt(ctx, name, p, off)
		return err
	})
	return n, err
}

func (r *retryBucket) Stat(ctx context.Context, name string) (info Info, err error) {
	err = r.do(ctx, func() error {
		info, err = r.b.Stat(ctx, name)
		return err
	})
	return info, err
}

// List goes on behind the last object that it has passed to the caller, when it fails.
func (r *retryBucket) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		after := after // whoever goes through the list again begins where this one did
		for p := r.patient(); ; {
			var failed error
			for info, err := range r.b.List(ctx, prefix, after) {
				if err != nil {
					failed = err
					break
				}
				if !yield(info, nil) {
					return
				}
				after, p = info.Name, r.patient()
			}
			if failed == nil {
				return
			}
			if err := p.again(ctx, failed); err != nil {
				yield(Info{}, err)
				return
			}
		}
	}
}

func (r *retryBucket) Delete(ctx context.Context, name string) error {
	return r.do(ctx, func() error { return r.b.Delete(ctx, name) })
}

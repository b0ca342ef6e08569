package buckets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
)

// All requests of a store go through a Retry. It decides what is worth another attempt, and when a
// call has hung. What it can't decide is whether a call that failed has taken effect: each caller
// is written so that both are fine, and only Put of an absent object needs help, which is in
// compare.

// A Retry makes the calls of another bucket again when they fail with an error that may pass:
// a server that is busy or away, a connection that is lost. It waits longer each time, and returns the
// last error when its patience is over. A server or a connection may also hang: an attempt in which nothing moves for
// too long is ended, and counts as one that has failed.
//
// A call that creates an object may have succeeded although its answer was lost. The next attempt
// finds the name taken then. So the object is read back: if it has the bytes of the call, the call
// has succeeded.
type Retry struct {
	Bucket bucket.Bucket

	first, most time.Duration // the first wait, which doubles each time, up to most
	Patience    time.Duration // of a call: all waits, and the attempts without the time that their bytes take

	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error

	failed func(waited time.Duration, err error) bool // see Telling
}

const (
	// hungAfter is how long the first attempt of a call may go on while nothing moves. It is a third of the patience if
	// that is less, but not less than leastHung. Later ones may take twice as long each, for servers that are slow.
	hungAfter, leastHung = 5 * time.Second, time.Second
	// slowest is the rate at which bytes move at least, in bytes a second: an attempt has as much more time.
	// A table of 64 MiB has 256 s more.
	slowest = 256 << 10
	// buffered is how many bytes may be on their way behind those that a bucket has called Progress for.
	// At the slowest rate they take 4 s.
	buffered = 1 << 20
	// listPage is how many bytes of the answer to a list come before its first object is passed on.
	listPage = 1 << 20
	// LateAfter is how long a request has no answer, at least, when the bucket begins to count as away.
	LateAfter = 5 * time.Second
)

// checksumTries is how often an object is put whose bytes arrive with a wrong checksum. The bytes may have
// changed on the way, but more likely they are not what the caller says.
const checksumTries = 3

// Retrying returns a bucket that makes the calls of b again: see remote.Retrying.
func Retrying(b bucket.Bucket) *Retry {
	if r, ok := b.(*Retry); ok {
		return r
	}
	return &Retry{Bucket: b, first: 50 * time.Millisecond, most: 5 * time.Second, Patience: 30 * time.Second, Now: time.Now, Sleep: Sleep}
}

// RetryingFor is retrying with another patience. It changes nothing of b, which others may use.
func RetryingFor(b bucket.Bucket, patience time.Duration) *Retry {
	r := *Retrying(b)
	r.Patience = patience
	return &r
}

// Telling returns a copy of r that calls failed after each attempt that has failed, and for one that does not end although
// it hangs. waited is for how long the call has been without an answer. If failed has returned true, it is called with no
// error when the answer comes.
func (r *Retry) Telling(failed func(waited time.Duration, err error) bool) *Retry {
	c := *r
	c.failed = failed
	return &c
}

// Sleep waits, and returns early with the error of ctx if that is done.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// canPass reports whether a call that failed with err may succeed when it is made again. An error that has a
// method Permanent says it itself: a Bucket marks with it that credentials are wrong or that there is
// no such bucket. That a deadline of the network is over may pass.
// io.EOF is no failure: it is how a read says that the object ends.
func canPass(err error) bool {
	switch {
	case err == nil, err == io.EOF:
		return false
	case errors.Is(err, bucket.ErrExists), errors.Is(err, fs.ErrNotExist), errors.Is(err, bucket.ErrChecksum), errors.Is(err, context.Canceled):
		return false
	}
	return !Refused(err)
}

// A patience is one call, with its attempts and the waits between them. What counts against the patience is time in which
// nothing happens: the waits, and of each attempt as much as it would take to end one that hangs. The time in which bytes
// move does not count, so a large object on a slow line is not given up.
type patience struct {
	r        *Retry
	call     string // with the name of the object
	size     int64  // bytes that it moves
	begun    time.Time
	left     time.Duration
	wait     time.Duration // before the next attempt
	hung     time.Duration // how long an attempt may go on while nothing moves
	clock    *time.Timer   // ends the attempt then
	attempts int
	late     atomic.Bool // the last answer of r.failed
}

// renew gives the call its whole patience: when it begins, and when a list has brought another object.
func (p *patience) renew() {
	p.begun, p.left, p.wait, p.attempts = p.r.Now(), p.r.Patience, p.r.first, 0
	p.hung = min(max(p.r.Patience/3, leastHung), hungAfter)
}

// limit returns how long an attempt may go on while size bytes are on their way and none arrives.
func (p *patience) limit(size int64) time.Duration {
	return p.hung + time.Duration(size)*time.Second/slowest
}

// try makes an attempt, and ends it if it hangs.
func (p *patience) try(ctx context.Context, fn func(ctx context.Context, p *patience) error) error {
	// This error is made for this attempt alone, so the cause of its context shows whether this
	// clock has ended it or somebody else.
	hung := fmt.Errorf("remote: %s: nothing has come or gone for %v: %w", p.call, p.hung.Round(time.Millisecond), os.ErrDeadlineExceeded)
	begun := p.r.Now()
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, progressKey{}, p))
	defer cancel(nil)
	var ended atomic.Bool
	defer ended.Store(true)
	p.clock = time.AfterFunc(p.limit(p.size), func() {
		cancel(hung)
		p.tellDeaf(begun, &ended, hung)
	})
	defer p.clock.Stop()
	err := fn(ctx, p)
	if err != nil && err != io.EOF && context.Cause(ctx) == hung {
		err = hung
	}
	p.left -= min(p.r.Now().Sub(begun), p.hung)
	return err
}

// tellDeaf reports an attempt that has not returned although its context has ended. A call of the file system on a mount
// that hangs is such an attempt: no bucket can end it. It looks every LateAfter, until the report is taken or the attempt
// has returned.
func (p *patience) tellDeaf(begun time.Time, ended *atomic.Bool, hung error) {
	if p.r.failed == nil {
		return
	}
	time.AfterFunc(LateAfter, func() {
		if ended.Load() {
			return
		}
		if p.r.failed(p.r.Now().Sub(begun), hung) {
			p.late.Store(true)
		} else {
			p.tellDeaf(begun, ended, hung)
		}
	})
}

// progressKey is the key of contexts for the call that they belong to.
type progressKey struct{}

// Progress says that a call moves bytes and does not hang: see remote.Progress.
func Progress(ctx context.Context) {
	if p, ok := ctx.Value(progressKey{}).(*patience); ok {
		p.clock.Reset(p.limit(min(p.size, buffered)))
	}
}

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
	if p.r.failed != nil {
		p.late.Store(p.r.failed(p.r.Patience-p.left, err))
	}
	if p.left -= p.wait; p.left < 0 {
		return fmt.Errorf("%w (attempt %d, %v after the first)", err, p.attempts, p.r.Now().Sub(p.begun).Round(time.Millisecond))
	}
	if ctxErr := p.r.Sleep(ctx, p.wait); ctxErr != nil {
		return fmt.Errorf("%w (the last attempt: %w)", ctxErr, err)
	}
	// A slow server gets twice the time with each attempt, but never more than is left of the
	// patience, and a second at least.
	p.wait, p.hung = min(2*p.wait, p.r.most), max(min(2*p.hung, p.left), leastHung)
	return nil
}

// do makes a call until it succeeds or its error can't pass.
func (r *Retry) do(ctx context.Context, call, name string, size int64, fn func(ctx context.Context, p *patience) error) error {
	p := &patience{r: r, call: fmt.Sprintf("%s %q", call, name), size: size}
	p.renew()
	for {
		err := p.try(ctx, fn)
		if err == nil || err == io.EOF {
			if p.late.Load() {
				p.r.failed(0, nil)
			}
			return err
		}
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

// Put also repeats, a few times, a call whose bytes have arrived with a wrong checksum. If the name is taken after an attempt
// that may have succeeded, it reads the object back: see compare.
func (r *Retry) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if err := bucket.CheckCall(ctx, name); err != nil {
		return bucket.CallError("put", name, err)
	}
	mayBeThere, changed := false, 0 // an earlier attempt may have made the object; so many bodies have arrived changed
	err := r.do(ctx, "put", name, max(size, 0), func(ctx context.Context, p *patience) error {
		err := r.Bucket.Put(ctx, name, body, size, crc32c, absent)
		for ; errors.Is(err, bucket.ErrChecksum) && changed < checksumTries-1; changed++ {
			p.clock.Reset(p.limit(p.size))
			err = r.Bucket.Put(ctx, name, body, size, crc32c, absent)
		}
		mayBeThere = mayBeThere || canPass(err) || err != nil && ctx.Err() != nil
		return err
	})
	if errors.Is(err, bucket.ErrExists) && mayBeThere {
		return r.compare(ctx, name, body, size, crc32c, err)
	}
	return err
}

// compare returns nil if the object that is there has the bytes of body, and otherwise taken, the
// error that says that its name is taken. Bits may flip on the way here. So other bytes than those of
// body count only if they have the object's checksum, and are read again if not.
func (r *Retry) compare(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, taken error) error {
	info, err := r.Stat(ctx, name)
	if err != nil || info.Size != size || info.CRC32C != crc32c {
		return errors.Join(taken, bucket.IgnoreAbsence(err))
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
	return bucket.CallError("put", name, fmt.Errorf("%w of what is read back; it may be there", bucket.ErrChecksum))
}

// readBack reads an object of size bytes. It reports whether these are those of body, and returns the
// crc32c of the bytes that it has read. It returns the errors of compare.
func (r *Retry) readBack(ctx context.Context, name string, body io.ReaderAt, size int64, taken error) (same bool, sum uint32, err error) {
	const part = 1 << 20
	ours, theirs := make([]byte, min(part, size)), make([]byte, min(part, size))
	same = true
	for off := int64(0); off < size; off += part {
		n := min(part, size-off)
		if _, err := r.ReadAt(ctx, name, theirs[:n], off); err != nil {
			return false, 0, errors.Join(taken, bucket.IgnoreAbsence(err))
		}
		if got, err := body.ReadAt(ours[:n], off); int64(got) < n {
			return false, 0, bucket.CallError("put", name, fmt.Errorf("read the body: %w", err))
		}
		same = same && bytes.Equal(ours[:n], theirs[:n])
		sum = crc32.Update(sum, bucket.Castagnoli, theirs[:n])
	}
	return same, sum, nil
}

// ReadAt repeats a read as a whole. What an attempt has left in p is overwritten.
func (r *Retry) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = r.do(ctx, "read", name, int64(len(p)), func(ctx context.Context, _ *patience) error {
		n, err = r.Bucket.ReadAt(ctx, name, p, off)
		return err
	})
	return n, err
}

// Stat repeats a call that fails.
func (r *Retry) Stat(ctx context.Context, name string) (info bucket.Info, err error) {
	err = r.do(ctx, "stat", name, 0, func(ctx context.Context, _ *patience) error {
		info, err = r.Bucket.Stat(ctx, name)
		return err
	})
	return info, err
}

// List goes on behind the last object that it has passed to the caller, when it fails.
func (r *Retry) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		after := after // whoever goes through the list again begins where this one did
		err := r.do(ctx, "list", prefix, listPage, func(ctx context.Context, p *patience) error {
			for info, err := range r.Bucket.List(ctx, prefix, after) {
				if err != nil {
					return err
				}
				p.clock.Stop() // the time of the caller
				if !yield(info, nil) {
					return nil
				}
				after = info.Name
				// An object has come, so the bucket answers: the call has its whole patience again.
				p.renew()
				p.clock.Reset(p.limit(p.size))
			}
			return nil
		})
		if err != nil {
			yield(bucket.Info{}, err)
		}
	}
}

// Delete repeats a call that fails. To delete an object twice is no error.
func (r *Retry) Delete(ctx context.Context, name string) error {
	return r.do(ctx, "delete", name, 0, func(ctx context.Context, _ *patience) error { return r.Bucket.Delete(ctx, name) })
}

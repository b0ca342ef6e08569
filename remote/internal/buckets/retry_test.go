package buckets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
)

var errPasses = errors.New("503 busy")

// A failing bucket fails calls before or after they take effect: plan has an entry for each call, in
// order, and the calls behind them succeed.
type failing struct {
	bucket.Bucket
	Plan  []failure
	Calls int
}

type failure struct {
	Err   error
	After bool // the call takes effect, only its answer is lost
}

// try makes a call as the plan says.
func (f *failing) try(call func() error) error {
	f.Calls++
	if len(f.Plan) == 0 {
		return call()
	}
	now := f.Plan[0]
	f.Plan = f.Plan[1:]
	if now.After {
		_ = call() // its answer is lost
	}
	if now.Err == nil {
		return call()
	}
	return now.Err
}

func (f *failing) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	return f.try(func() error { return f.Bucket.Put(ctx, name, body, size, crc32c, absent) })
}

func (f *failing) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = f.try(func() error { n, err = f.Bucket.ReadAt(ctx, name, p, off); return err })
	return n, err
}

func (f *failing) Stat(ctx context.Context, name string) (info bucket.Info, err error) {
	err = f.try(func() error { info, err = f.Bucket.Stat(ctx, name); return err })
	return info, err
}

func (f *failing) Delete(ctx context.Context, name string) error {
	return f.try(func() error { return f.Bucket.Delete(ctx, name) })
}

// List passes as many objects as the next entries of the plan without an error.
func (f *failing) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		f.Calls++
		for info, err := range f.Bucket.List(ctx, prefix, after) {
			if len(f.Plan) > 0 {
				now := f.Plan[0]
				f.Plan = f.Plan[1:]
				if now.Err != nil {
					yield(bucket.Info{}, now.Err)
					return
				}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// impatient returns a bucket whose waits take no time. They are noted.
func impatient(b bucket.Bucket) (r *Retry, waits *[]time.Duration) {
	clock := time.Unix(1_700_000_000, 0)
	waits = new([]time.Duration)
	r = Retrying(b)
	r.Now = func() time.Time { return clock }
	r.Sleep = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		clock = clock.Add(d)
		return ctx.Err()
	}
	return r, waits
}

func times(n int, f failure) []failure {
	return slices.Repeat([]failure{f}, n)
}

// TestRetry_Waits checks how long a call waits between its attempts, and when it gives up.
func TestRetry_Waits(t *testing.T) {
	ctx := context.Background()
	f := &failing{Bucket: NewMem(), Plan: times(1000, failure{Err: errPasses})}
	r, waits := impatient(f)
	err := r.Delete(ctx, "m/1")
	if !errors.Is(err, errPasses) || !strings.Contains(err.Error(), "attempt 12") {
		t.Errorf("a bucket that is away: %v", err)
	}
	ms := time.Millisecond
	want := []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms, 5000 * ms, 5000 * ms}
	if !slices.Equal(*waits, want) || f.Calls != len(want)+1 {
		t.Errorf("%d calls, waits %v, want %v", f.Calls, *waits, want)
	}
	if Retrying(r) != r {
		t.Error("a bucket that repeats calls is wrapped once more")
	}
}

type permanentError struct{ permanent bool }

func (permanentError) Error() string     { return "403 denied" }
func (e permanentError) Permanent() bool { return e.permanent }

// TestRetry_WhatCannotPass checks that errors that would come again are returned at once.
func TestRetry_WhatCannotPass(t *testing.T) {
	ctx := context.Background()
	for _, err := range []error{bucket.ErrExists, fs.ErrNotExist, context.Canceled, permanentError{true}} {
		f := &failing{Bucket: NewMem(), Plan: times(5, failure{Err: fmt.Errorf("put: %w", err)})}
		r, waits := impatient(f)
		if got := bucket.PutObject(ctx, r, "m/1", nil, true); !errors.Is(got, err) || f.Calls != 1 || len(*waits) > 0 {
			t.Errorf("%v: %v after %d calls and waits %v", err, got, f.Calls, *waits)
		}
	}
	f := &failing{Bucket: NewMem(), Plan: times(5, failure{Err: permanentError{false}})}
	r, _ := impatient(f)
	if err := bucket.PutObject(ctx, r, "m/1", nil, true); err != nil || f.Calls != 6 {
		t.Errorf("an error that says that it passes: %v after %d calls", err, f.Calls)
	}
	if err := bucket.PutObject(ctx, r, "M", nil, true); err == nil || f.Calls != 6 {
		t.Errorf("a name that can't be: %v after %d calls", err, f.Calls)
	}
	if n, err := r.ReadAt(ctx, "m/1", make([]byte, 1), 0); n != 0 || err != io.EOF || f.Calls != 7 {
		t.Errorf("the end of an object: %d, %v after %d calls", n, err, f.Calls)
	}
}

// TestRetry_Checksum checks that a body that arrives changed is sent again, but not for long.
func TestRetry_Checksum(t *testing.T) {
	ctx := context.Background()
	f := &failing{Bucket: NewMem(), Plan: times(2, failure{Err: bucket.ErrChecksum})}
	r, _ := impatient(f)
	if err := bucket.PutObject(ctx, r, "m/1", []byte("x"), true); err != nil || f.Calls != 3 {
		t.Errorf("two bodies were changed on the way: %v after %d calls", err, f.Calls)
	}
	f = &failing{Bucket: NewMem()}
	r, _ = impatient(f)
	if err := r.Put(ctx, "m/2", bytes.NewReader([]byte("x")), 1, 7, true); !errors.Is(err, bucket.ErrChecksum) || f.Calls != 3 {
		t.Errorf("a checksum that is wrong: %v after %d calls", err, f.Calls)
	}
}

// TestRetry_LostAnswer checks that a create-if-absent whose answer was lost is not taken for somebody else's.
func TestRetry_LostAnswer(t *testing.T) {
	ctx := context.Background()
	long := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	other := slices.Clone(long)
	other[len(other)-1]++
	for _, data := range [][]byte{nil, []byte("ours"), long} {
		f := &failing{Bucket: NewMem(), Plan: times(2, failure{Err: errPasses, After: true})}
		r, _ := impatient(f)
		if err := bucket.PutObject(ctx, r, "m/1", data, true); err != nil {
			t.Errorf("%d bytes, the answer was lost: %v", len(data), err)
		}
		if err := bucket.PutObject(ctx, r, "m/1", data, true); !errors.Is(err, bucket.ErrExists) {
			t.Errorf("the same bytes by a call whose first answer says that the name is taken: %v", err)
		}
	}
	for _, theirs := range [][]byte{nil, []byte("their"), []byte("them"), other} {
		mem := NewMem()
		mustNil(t, bucket.PutObject(ctx, mem, "m/1", theirs, true))
		r, _ := impatient(&failing{Bucket: mem, Plan: []failure{{Err: errPasses}}})
		ours := []byte("ours")
		if len(theirs) > 100 {
			ours = long
		}
		if err := bucket.PutObject(ctx, r, "m/1", ours, true); !errors.Is(err, bucket.ErrExists) {
			t.Errorf("%d bytes of somebody else are there: %v", len(theirs), err)
		}
		// The bytes of the other one can't be read for a while.
		r, _ = impatient(&failing{Bucket: mem, Plan: []failure{{Err: errPasses}, {}, {Err: errPasses}}})
		if err := bucket.PutObject(ctx, r, "m/1", ours, true); !errors.Is(err, bucket.ErrExists) {
			t.Errorf("%d bytes of somebody else are there: %v", len(theirs), err)
		}
	}
}

// A flipper flips a bit of the first reads.
type flipper struct {
	bucket.Bucket
	flips int
}

func (f *flipper) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := f.Bucket.ReadAt(ctx, name, p, off)
	if n > 0 && f.flips > 0 {
		f.flips--
		p[n/2] ^= 4
	}
	return n, err
}

// TestRetry_LostAnswerThenFlips checks that an object whose answer was lost is not taken for somebody else's
// because of a bit that flips when it is read back. If that happens each time, the outcome is unknown.
func TestRetry_LostAnswerThenFlips(t *testing.T) {
	ctx := context.Background()
	for _, data := range [][]byte{[]byte("ours"), bytes.Repeat([]byte("0123456789abcdef"), 200_000)} {
		for flips := range checksumTries + 1 {
			r, _ := impatient(&failing{Bucket: &flipper{NewMem(), flips}, Plan: []failure{{Err: errPasses, After: true}}})
			err := bucket.PutObject(ctx, r, "m/1", data, true)
			// Of a large object each try flips one part until the flips are used up.
			if unknown := flips == checksumTries && len(data) < 100; unknown && (!errors.Is(err, bucket.ErrChecksum) || errors.Is(err, bucket.ErrExists)) || !unknown && err != nil {
				t.Errorf("%d bytes, %d flips: %v", len(data), flips, err)
			}
		}
	}
}

// TestRetry_ListGoesOn checks that no object is passed twice when a list breaks off.
func TestRetry_ListGoesOn(t *testing.T) {
	ctx := context.Background()
	mem := NewMem()
	var want []string
	for n := range uint64(6) {
		want = append(want, fmt.Sprintf("m/%016x", n+1))
		mustNil(t, bucket.PutObject(ctx, mem, want[n], nil, true))
	}
	broken := failure{Err: errPasses}
	f := &failing{Bucket: mem, Plan: []failure{broken, {}, {}, broken, broken, {}, broken}}
	r, waits := impatient(f)
	var got []string
	for info, err := range r.List(ctx, "m/", "") {
		mustNil(t, err)
		got = append(got, info.Name)
	}
	if !slices.Equal(got, want) || f.Calls != 5 || len(*waits) != 4 {
		t.Errorf("%v after %d calls, waits %v; want %v", got, f.Calls, *waits, want)
	}
	f.Plan = times(1000, broken)
	last := error(nil)
	for _, last = range r.List(ctx, "m/", "") {
	}
	if !errors.Is(last, errPasses) {
		t.Errorf("the list of a bucket that is away ends with %v", last)
	}
}

// TestRetry_ListTwice goes through a list twice. The second time must not begin where the first one has ended.
func TestRetry_ListTwice(t *testing.T) {
	mem := NewMem()
	for _, name := range []string{"d/0", "d/1", "d/2"} {
		mustNil(t, bucket.PutObject(t.Context(), mem, name, nil, true))
	}
	list := Retrying(mem).List(t.Context(), "d/", "")
	for range 2 {
		var names []string
		for info, err := range list {
			mustNil(t, err)
			names = append(names, info.Name)
			if len(names) == 2 {
				break
			}
		}
		if want := []string{"d/0", "d/1"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
	}
}

// TestRetry_ContextEnds checks that a wait ends with the context, and that the error says both why.
func TestRetry_ContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := Retrying(&failing{Bucket: NewMem(), Plan: times(1000, failure{Err: errPasses})})
	r.first, r.most = time.Hour, time.Hour
	r.Patience = 1000 * time.Hour
	time.AfterFunc(time.Millisecond, cancel)
	_, err := r.Stat(ctx, "m/1")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errPasses) {
		t.Errorf("a wait is cancelled: %v", err)
	}
	if _, err := r.Stat(ctx, "m/1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a context that is done: %v", err)
	}
}

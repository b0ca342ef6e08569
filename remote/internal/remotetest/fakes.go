// Package remotetest has buckets that fail, for tests of the packages of remote.
package remotetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"

	"github.com/shaledb/shale/remote/internal/bucket"
)

var ErrPasses = errors.New("503 busy")

// A Failing bucket fails calls before or after they take effect: plan has an entry for each call, in
// order, and the calls behind them succeed.
type Failing struct {
	bucket.Bucket
	Plan  []Failure
	Calls int
}

type Failure struct {
	Err   error
	After bool // the call takes effect, only its answer is lost
}

// try makes a call as the plan says.
func (f *Failing) try(call func() error) error {
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

func (f *Failing) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	return f.try(func() error { return f.Bucket.Put(ctx, name, body, size, crc32c, absent) })
}

func (f *Failing) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = f.try(func() error { n, err = f.Bucket.ReadAt(ctx, name, p, off); return err })
	return n, err
}

func (f *Failing) Stat(ctx context.Context, name string) (info bucket.Info, err error) {
	err = f.try(func() error { info, err = f.Bucket.Stat(ctx, name); return err })
	return info, err
}

func (f *Failing) Delete(ctx context.Context, name string) error {
	return f.try(func() error { return f.Bucket.Delete(ctx, name) })
}

// List passes as many objects as the next entries of the plan without an error.
func (f *Failing) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
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

// A Broken bucket does something else than the bucket below it, where a function is set.
type Broken struct {
	bucket.Bucket
	OnPut    func(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error
	OnStat   func(ctx context.Context, name string) (bucket.Info, error)
	OnRead   func(ctx context.Context, name string, p []byte, off int64) (int, error)
	OnList   func(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error]
	OnDelete func(ctx context.Context, name string) error
}

func (b *Broken) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if b.OnPut != nil {
		return b.OnPut(ctx, name, body, size, crc32c, absent)
	}
	return b.Bucket.Put(ctx, name, body, size, crc32c, absent)
}

func (b *Broken) Stat(ctx context.Context, name string) (bucket.Info, error) {
	if b.OnStat != nil {
		return b.OnStat(ctx, name)
	}
	return b.Bucket.Stat(ctx, name)
}

func (b *Broken) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if b.OnRead != nil {
		return b.OnRead(ctx, name, p, off)
	}
	return b.Bucket.ReadAt(ctx, name, p, off)
}

func (b *Broken) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	if b.OnList != nil {
		return b.OnList(ctx, prefix, after)
	}
	return b.Bucket.List(ctx, prefix, after)
}

func (b *Broken) Delete(ctx context.Context, name string) error {
	if b.OnDelete != nil {
		return b.OnDelete(ctx, name)
	}
	return b.Bucket.Delete(ctx, name)
}

// ActualSum returns the checksum of a body, whatever was stated.
func ActualSum(body io.ReaderAt, size int64) uint32 {
	data := make([]byte, size)
	_, _ = body.ReadAt(data, 0) // a short body gives another checksum, and that is all that matters here
	return bucket.Checksum(data)
}

// A Refusal is an error that no repetition cures, as buckets mark them.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return r.Err.Error() }

func (Refusal) Permanent() bool { return true }

// NamesOf returns the names of all objects of a folder.
func NamesOf(t *testing.T, b bucket.Bucket, folder string) []string {
	t.Helper()
	var names []string
	for info, err := range b.List(context.Background(), folder, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Name)
	}
	return names
}

// Flipped returns a copy of b with one bit changed.
func Flipped(b []byte, bit int) []byte {
	c := slices.Clone(b)
	c[bit/8] ^= 1 << (bit % 8)
	return c
}

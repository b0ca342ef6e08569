package remote

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"
)

var errPasses = errors.New("503 busy")

// A failing bucket fails calls before or after they take effect: plan has an entry for each call, in
// order, and the calls behind them succeed.
type failing struct {
	Bucket
	plan  []failure
	calls int
}

type failure struct {
	err   error
	after bool // the call takes effect, only its answer is lost
}

// try makes a call as the plan says.
func (f *failing) try(call func() error) error {
	f.calls++
	if len(f.plan) == 0 {
		return call()
	}
	now := f.plan[0]
	f.plan = f.plan[1:]
	if now.after {
		_ = call() // its answer is lost
	}
	if now.err == nil {
		return call()
	}
	return now.err
}

func (f *failing) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	return f.try(func() error { return f.Bucket.Put(ctx, name, body, size, crc32c, absent) })
}

func (f *failing) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = f.try(func() error { n, err = f.Bucket.ReadAt(ctx, name, p, off); return err })
	return n, err
}

func (f *failing) Stat(ctx context.Context, name string) (info Info, err error) {
	err = f.try(func() error { info, err = f.Bucket.Stat(ctx, name); return err })
	return info, err
}

func (f *failing) Delete(ctx context.Context, name string) error {
	return f.try(func() error { return f.Bucket.Delete(ctx, name) })
}

// List passes as many objects as the next entries of the plan without an error.
func (f *failing) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		f.calls++
		for info, err := range f.Bucket.List(ctx, prefix, after) {
			if len(f.plan) > 0 {
				now := f.plan[0]
				f.plan = f.plan[1:]
				if now.err != nil {
					yield(Info{}, now.err)
					return
				}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// A broken bucket does something else than the bucket below it, where a function is set.
type broken struct {
	Bucket
	put    func(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error
	stat   func(ctx context.Context, name string) (Info, error)
	read   func(ctx context.Context, name string, p []byte, off int64) (int, error)
	list   func(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
	delete func(ctx context.Context, name string) error
}

func (b *broken) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if b.put != nil {
		return b.put(ctx, name, body, size, crc32c, absent)
	}
	return b.Bucket.Put(ctx, name, body, size, crc32c, absent)
}

func (b *broken) Stat(ctx context.Context, name string) (Info, error) {
	if b.stat != nil {
		return b.stat(ctx, name)
	}
	return b.Bucket.Stat(ctx, name)
}

func (b *broken) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if b.read != nil {
		return b.read(ctx, name, p, off)
	}
	return b.Bucket.ReadAt(ctx, name, p, off)
}

func (b *broken) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	if b.list != nil {
		return b.list(ctx, prefix, after)
	}
	return b.Bucket.List(ctx, prefix, after)
}

func (b *broken) Delete(ctx context.Context, name string) error {
	if b.delete != nil {
		return b.delete(ctx, name)
	}
	return b.Bucket.Delete(ctx, name)
}

// actual returns the checksum of a body, whatever was stated.
func actual(body io.ReaderAt, size int64) uint32 {
	data := make([]byte, size)
	_, _ = body.ReadAt(data, 0) // a short body gives another checksum, and that is all that matters here
	return Checksum(data)
}

// A refusal is an error that no repetition cures, as buckets mark them.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }

func (refusal) Permanent() bool { return true }

// namesOf returns the names of all objects of a folder.
func namesOf(t *testing.T, b Bucket, folder string) []string {
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

// flipped returns a copy of b with one bit changed.
func flipped(b []byte, bit int) []byte {
	c := slices.Clone(b)
	c[bit/8] ^= 1 << (bit % 8)
	return c
}

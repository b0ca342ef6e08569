// Package remotetest has buckets that fail, for tests of the packages of remote.
package remotetest

import (
	"context"
	"io"
	"iter"
	"slices"
	"testing"

	"github.com/shaledb/shale/remote/internal/bucket"
)

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

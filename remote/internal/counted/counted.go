// Package counted has a bucket that counts what it is asked, for demonstrations and figures: a request is what an object store
// bills.
package counted

import (
	"context"
	"io"
	"iter"
	"sync"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/object"
)

// Counts are how many requests a bucket got, and the bytes of objects that they moved.
type Counts struct {
	Puts, Gets, Heads, Lists, Deletes int64
	TablePuts, TableGets              int64 // those that are about tables
	PutBytes, GetBytes                int64
	TableGetBytes                     int64
}

// Since returns what has come since before.
func (c Counts) Since(before Counts) Counts {
	return Counts{
		c.Puts - before.Puts, c.Gets - before.Gets, c.Heads - before.Heads, c.Lists - before.Lists, c.Deletes - before.Deletes,
		c.TablePuts - before.TablePuts, c.TableGets - before.TableGets,
		c.PutBytes - before.PutBytes, c.GetBytes - before.GetBytes, c.TableGetBytes - before.TableGetBytes,
	}
}

// A Bucket passes calls on to another bucket and counts them, also those that fail. Any number of goroutines may use it.
type Bucket struct {
	bucket.Bucket

	mu     sync.Mutex // protects counts
	counts Counts
}

// New returns a bucket that counts what it passes on to b.
func New(b bucket.Bucket) *Bucket { return &Bucket{Bucket: b} }

// Counts returns the counts so far.
func (b *Bucket) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// add changes the counts.
func (b *Bucket) add(change func(c *Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.counts)
}

// isTable reports whether an object is a table or the sidecar of one.
func isTable(name string) bool {
	n, ok := object.ParseName(name)
	return ok && (n.Kind == object.KindTable || n.Kind == object.KindFilter)
}

// Put implements bucket.Bucket.
func (b *Bucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	b.add(func(c *Counts) {
		c.Puts++
		c.PutBytes += size
		if isTable(name) {
			c.TablePuts++
		}
	})
	return b.Bucket.Put(ctx, name, body, size, crc32c, absent)
}

// ReadAt implements bucket.Bucket.
func (b *Bucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, err := b.Bucket.ReadAt(ctx, name, p, off)
	b.add(func(c *Counts) {
		c.Gets++
		c.GetBytes += int64(n)
		if isTable(name) {
			c.TableGets++
			c.TableGetBytes += int64(n)
		}
	})
	return n, err
}

// Stat implements bucket.Bucket.
func (b *Bucket) Stat(ctx context.Context, name string) (bucket.Info, error) {
	b.add(func(c *Counts) { c.Heads++ })
	return b.Bucket.Stat(ctx, name)
}

// perList is how many objects a server returns with one request.
const perList = 1000

// List implements bucket.Bucket. Each page of a list is a request.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	return func(yield func(bucket.Info, error) bool) {
		n := 0
		for info, err := range b.Bucket.List(ctx, prefix, after) {
			if n%perList == 0 {
				b.add(func(c *Counts) { c.Lists++ })
			}
			if n++; !yield(info, err) {
				return
			}
		}
		if n == 0 {
			b.add(func(c *Counts) { c.Lists++ })
		}
	}
}

// Delete implements bucket.Bucket.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	b.add(func(c *Counts) { c.Deletes++ })
	return b.Bucket.Delete(ctx, name)
}

package remote

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A countingBucket counts requests by the folder of the object, and makes chosen ones fail.
type countingBucket struct {
	Bucket
	mu      sync.Mutex
	gets    map[string]int // GETs by folder: "t/", "w/", ...
	bytes   map[string]int // that were asked for by them
	largest int            // the most bytes of one GET of a table
	stats   map[string]int // HEADs
	lists   int
	before  func(name string) error // asked before each GET; its error is the answer
	after   func(name string, p []byte, off int64)
}

func countRequests(b Bucket) *countingBucket {
	return &countingBucket{Bucket: b, gets: make(map[string]int), bytes: make(map[string]int), stats: make(map[string]int)}
}

// folderOf returns the folder of an object, with its slash.
func folderOf(name string) string {
	folder, _, _ := strings.Cut(name, "/")
	return folder + "/"
}

func (c *countingBucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	c.mu.Lock()
	c.gets[folderOf(name)]++
	c.bytes[folderOf(name)] += len(p)
	if folderOf(name) == "t/" {
		c.largest = max(c.largest, len(p))
	}
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(name); err != nil {
			return 0, err
		}
	}
	n, err := c.Bucket.ReadAt(ctx, name, p, off)
	if after != nil {
		after(name, p[:n], off)
	}
	return n, err
}

func (c *countingBucket) Stat(ctx context.Context, name string) (Info, error) {
	c.mu.Lock()
	c.stats[folderOf(name)]++
	c.mu.Unlock()
	return c.Bucket.Stat(ctx, name)
}

func (c *countingBucket) List(ctx context.Context, prefix, after string) iter.Seq2[Info, error] {
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
	return c.Bucket.List(ctx, prefix, after)
}

// tableGets returns the number of GETs of tables so far.
func (c *countingBucket) tableGets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gets["t/"]
}

// during returns how many GETs of tables fn makes, and the bytes of the largest.
func (c *countingBucket) during(fn func()) (gets, largest int) {
	before := c.tableGets()
	c.mu.Lock()
	c.largest = 0
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gets["t/"] - before, c.largest
}

// inject makes before what is asked before each GET.
func (c *countingBucket) inject(before func(name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// readAll returns the content of a file.
func readAll(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) < size {
		t.Fatal(err)
	}
	return b
}

// changeFile changes the content of a file.
func changeFile(t testing.TB, fsys vfs.FS, name string, change func(b []byte) []byte) {
	t.Helper()
	b := change(readAll(t, fsys, name))
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

package remotetest

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
)

// A Counting counts requests by the folder of the object, and makes chosen ones fail.
type Counting struct {
	bucket.Bucket
	Mu       sync.Mutex
	Gets     map[string]int // GETs by folder: "t/", "w/", ...
	bytes    map[string]int // that were asked for by them
	largest  int            // the most bytes of one GET of a table
	Stats    map[string]int // HEADs
	Lists    int
	before   func(name string) error // asked before each GET; its error is the answer
	OnAnswer func(name string, p []byte, off int64)
}

func Count(b bucket.Bucket) *Counting {
	return &Counting{Bucket: b, Gets: make(map[string]int), bytes: make(map[string]int), Stats: make(map[string]int)}
}

// FolderOf returns the folder of an object, with its slash.
func FolderOf(name string) string {
	folder, _, _ := strings.Cut(name, "/")
	return folder + "/"
}

func (c *Counting) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	c.Mu.Lock()
	c.Gets[FolderOf(name)]++
	c.bytes[FolderOf(name)] += len(p)
	if FolderOf(name) == "t/" {
		c.largest = max(c.largest, len(p))
	}
	before, after := c.before, c.OnAnswer
	c.Mu.Unlock()
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

func (c *Counting) Stat(ctx context.Context, name string) (bucket.Info, error) {
	c.Mu.Lock()
	c.Stats[FolderOf(name)]++
	c.Mu.Unlock()
	return c.Bucket.Stat(ctx, name)
}

func (c *Counting) List(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
	c.Mu.Lock()
	c.Lists++
	c.Mu.Unlock()
	return c.Bucket.List(ctx, prefix, after)
}

// tableGets returns the number of GETs of tables so far.
func (c *Counting) tableGets() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Gets["t/"]
}

// During returns how many GETs of tables fn makes, and the bytes of the largest.
func (c *Counting) During(fn func()) (gets, largest int) {
	before := c.tableGets()
	c.Mu.Lock()
	c.largest = 0
	c.Mu.Unlock()
	fn()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Gets["t/"] - before, c.largest
}

// Inject sets the function that is called before each GET, and whose error is the answer.
func (c *Counting) Inject(before func(name string) error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.before = before
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, fsys vfs.FS, name string) []byte {
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

// ChangeFile changes the content of a file.
func ChangeFile(t testing.TB, fsys vfs.FS, name string, change func(b []byte) []byte) {
	t.Helper()
	b := change(ReadFile(t, fsys, name))
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

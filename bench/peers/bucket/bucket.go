package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/objstorage/remote"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Sizes and keys are those of remote/s3/internal/figures, so that both stores get the same entries and local parts of the same size.
const (
	valueSize = 100
	entrySize = 16 + valueSize
	tablePart = 0.63 // what an entry takes in a table, of entrySize
)

// appendKey appends key number i.
func appendKey(dst []byte, i int) []byte {
	return hex.AppendEncode(dst, binary.BigEndian.AppendUint64(nil, mixed(uint64(i))))
}

// appendValue appends the value of key number i.
func appendValue(dst []byte, i int) []byte {
	x := uint64(i)
	for range valueSize / 2 / 8 {
		x = mixed(x + 1)
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return append(dst, make([]byte, valueSize-len(dst))...)
}

func mixed(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// requests are those to the bucket: ranges that were read and their bytes, questions for a size, objects that were written, and
// how many of these were tables.
type requests struct{ gets, bytes, heads, puts, tables int64 }

// A bucket counts the requests to the storage below it. Local files are not counted.
type bucket struct {
	remote.Storage
	mu sync.Mutex
	n  requests
}

// newBucket makes a bucket in a new directory.
func newBucket(dir string) (*bucket, error) {
	return &bucket{Storage: remote.NewLocalFS(dir, vfs.Default)}, os.Mkdir(dir, 0o755)
}

func (b *bucket) count(gets, bytes, heads, puts, tables int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n = requests{b.n.gets + gets, b.n.bytes + bytes, b.n.heads + heads, b.n.puts + puts, b.n.tables + tables}
}

// take returns the requests since the last call.
func (b *bucket) take() requests {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.n
	b.n = requests{}
	return n
}

// ReadObject opens an object. It also returns its size, for which a bucket has to be asked.
func (b *bucket) ReadObject(ctx context.Context, name string) (remote.ObjectReader, int64, error) {
	b.count(0, 0, 1, 0, 0)
	r, size, err := b.Storage.ReadObject(ctx, name)
	return object{r, b}, size, err
}

// Size asks for the size of an object.
func (b *bucket) Size(name string) (int64, error) {
	b.count(0, 0, 1, 0, 0)
	return b.Storage.Size(name)
}

// CreateObject makes an object: a table, or the empty one that says who uses it.
func (b *bucket) CreateObject(name string) (io.WriteCloser, error) {
	tables := int64(0)
	if strings.HasSuffix(name, ".sst") {
		tables = 1
	}
	b.count(0, 0, 0, 1, tables)
	return b.Storage.CreateObject(name)
}

// An object counts what is read of it.
type object struct {
	remote.ObjectReader
	b *bucket
}

// ReadAt reads a range.
func (o object) ReadAt(ctx context.Context, p []byte, offset int64) error {
	o.b.count(1, int64(len(p)), 0, 0, 0)
	return o.ObjectReader.ReadAt(ctx, p, offset)
}

// onDisk returns what Pebble makes of a cache on disk of n bytes: each of its shards has at least a MiB.
func onDisk(n int64) int64 { return max(n, int64(2*runtime.GOMAXPROCS(0))<<20) }

package buckettest_test

import (
	"context"
	"io"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/vfs"
)

func TestMem(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket { return remote.NewMem() })
}

func TestDir(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket { return newDir(t, vfs.Default, testenv.QuickDir(t)) })
}

func TestDir_InMemory(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket { return newDir(t, vfs.NewMem(), "bucket") })
}

// TestDir_ManyProcesses uses one directory through several handles in turn, as several processes
// would: they share nothing but the files.
func TestDir_ManyProcesses(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) remote.Bucket {
		dir := testenv.QuickDir(t)
		b := new(inTurn)
		for i := range b.handles {
			b.handles[i] = newDir(t, vfs.Default, dir)
		}
		return b
	})
}

// inTurn is a bucket that makes each call through the next one of its handles.
type inTurn struct {
	handles [3]remote.Bucket
	calls   atomic.Uint64
}

func (b *inTurn) next() remote.Bucket { return b.handles[b.calls.Add(1)%3] }

func (b *inTurn) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	return b.next().Put(ctx, name, body, size, crc32c, absent)
}

func (b *inTurn) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	return b.next().ReadAt(ctx, name, p, off)
}

func (b *inTurn) Stat(ctx context.Context, name string) (remote.Info, error) {
	return b.next().Stat(ctx, name)
}

func (b *inTurn) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	return b.next().List(ctx, prefix, after)
}

func (b *inTurn) Delete(ctx context.Context, name string) error { return b.next().Delete(ctx, name) }

func newDir(t *testing.T, fsys vfs.FS, dir string) remote.Bucket {
	t.Helper()
	b, err := remote.NewDir(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package buckets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

func mustDir(t testing.TB, fsys vfs.FS, dir string) bucket.Bucket {
	t.Helper()
	b, err := NewDir(fsys, dir)
	mustNil(t, err)
	return b
}

// TestDir_FileIsObjectAndTrailer checks what docs/REMOTE.md says about the files.
func TestDir_FileIsObjectAndTrailer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "bucket")
	b := mustDir(t, nil, dir)
	data := []byte("the bytes of an object")
	mustNil(t, bucket.PutObject(t.Context(), b, "t/3f/000000000000003f.sst", data, true))
	got, err := os.ReadFile(filepath.Join(dir, "t", "3f", "000000000000003f.sst"))
	mustNil(t, err)
	want := slices.Concat(data, []byte{0xd5, 0x00, 0x58, 0xcd, 0xf7, 0x6a, 0x4d, 0x4f})
	if !bytes.Equal(got, want) {
		t.Errorf("the file is % x, want % x", got, want)
	}
	if left, err := os.ReadDir(filepath.Join(dir, unfinished)); err != nil || len(left) > 0 {
		t.Errorf("%s has %v, %v", unfinished, left, err)
	}
	// Another handle sees the same.
	read, err := bucket.ReadObject(t.Context(), mustDir(t, nil, dir), "t/3f/000000000000003f.sst", 100)
	if err != nil || !bytes.Equal(read, data) {
		t.Errorf("%q, %v", read, err)
	}
}

// TestDir_DamageIsFound flips every bit of a file and cuts it at every byte. Nobody may get a wrong
// checksum or size; wrong bytes are found by the checksum.
func TestDir_DamageIsFound(t *testing.T) {
	m := vfs.NewMem()
	b := mustDir(t, m, "bucket")
	data := []byte("0123456789")
	mustNil(t, bucket.PutObject(t.Context(), b, "object", data, true))
	path := filepath.Join("bucket", "object")
	good := appendTrailer(bytes.Clone(data), bucket.Checksum(data), int64(len(data)))
	check := func(what string, content []byte) {
		t.Helper()
		f, err := m.Create(path)
		mustNil(t, err)
		_, err = f.Write(content)
		mustNil(t, err)
		mustNil(t, f.Close())
		var c *base.CorruptionError
		got, err := bucket.ReadObject(t.Context(), b, "object", 1000)
		if damage := errors.As(err, &c) && c.File == "object"; !damage && !errors.Is(err, bucket.ErrChecksum) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		if info, err := b.Stat(t.Context(), "object"); err == nil && info != (bucket.Info{Name: "object", Size: 10, CRC32C: bucket.Checksum(data)}) {
			t.Errorf("%s: Stat = %+v", what, info)
		}
	}
	for bit := range 8 * len(good) {
		check(fmt.Sprintf("bit %d flipped", bit), remotetest.Flipped(good, bit))
	}
	for n := range good {
		check(fmt.Sprintf("cut to %d bytes", n), good[:n])
	}
	check("a byte more", append(bytes.Clone(good), 0))
	for info, err := range b.List(t.Context(), "", "") { // it is listed all the same
		if err != nil || info.Name != "object" {
			t.Errorf("List: %+v, %v", info, err)
		}
	}
}

// TestDir_OthersFiles checks that files that are no objects are not taken for some.
func TestDir_OthersFiles(t *testing.T) {
	dir := t.TempDir()
	b := mustDir(t, nil, dir)
	mustNil(t, bucket.PutObject(t.Context(), b, "m/1", []byte("step"), true))
	for _, name := range []string{".hidden", "Notes.TXT", "m/.nfs0001", "lost+found/file"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		mustNil(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mustNil(t, os.WriteFile(path, []byte("not an object at all"), 0o644))
	}
	var got []string
	for info, err := range b.List(t.Context(), "", "") {
		mustNil(t, err)
		got = append(got, info.Name)
	}
	if want := []string{"m/1"}; !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
	// Its directory stays, as it has another file.
	mustNil(t, b.Delete(t.Context(), "m/1"))
	if _, err := os.Stat(filepath.Join(dir, "m", ".nfs0001")); err != nil {
		t.Error(err)
	}
}

// TestDir_ObjectAboveAnother puts an object where a directory is, and below a file.
func TestDir_ObjectAboveAnother(t *testing.T) {
	b := mustDir(t, nil, t.TempDir())
	mustNil(t, bucket.PutObject(t.Context(), b, "a/b", []byte("below"), true))
	for _, absent := range []bool{true, false} {
		err := bucket.PutObject(t.Context(), b, "a", []byte("above"), absent)
		if err == nil || errors.Is(err, bucket.ErrExists) || !strings.Contains(err.Error(), "objects below this name") {
			t.Errorf("Put of a over a/b: %v", err)
		}
		err = bucket.PutObject(t.Context(), b, "a/b/c", []byte("below"), absent)
		if err == nil || errors.Is(err, bucket.ErrExists) {
			t.Errorf("Put of a/b/c below a/b: %v", err)
		}
	}
	if _, err := b.Stat(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of a directory: %v", err)
	}
	got, err := bucket.ReadObject(t.Context(), b, "a/b", 10)
	if err != nil || string(got) != "below" {
		t.Errorf("a/b = %q, %v", got, err)
	}
}

// TestDir_SweepsOldLeftovers opens a directory in which a process has ended in the middle of Put.
func TestDir_SweepsOldLeftovers(t *testing.T) {
	dir := t.TempDir()
	mustDir(t, nil, dir)
	for name, age := range map[string]time.Duration{"OLD": unfinishedAge + time.Hour, "YOUNG": unfinishedAge - time.Hour} {
		path := filepath.Join(dir, unfinished, name)
		mustNil(t, os.WriteFile(path, []byte("half"), 0o644))
		then := time.Now().Add(-age)
		mustNil(t, os.Chtimes(path, then, then))
	}
	mustDir(t, nil, dir)
	left, err := os.ReadDir(filepath.Join(dir, unfinished))
	mustNil(t, err)
	if len(left) != 1 || left[0].Name() != "YOUNG" {
		t.Errorf("%v are left, want the young one", left)
	}
}

// TestDir_NoHardLinks says what a file system lacks.
func TestDir_NoHardLinks(t *testing.T) {
	fsys := faultfs.New(vfs.NewMem(), faultfs.FailFrom(1, syscall.EPERM, vfs.OpLink))
	b := mustDir(t, fsys, "bucket")
	err := bucket.PutObject(t.Context(), b, "m/1", []byte("step"), true)
	if !errors.Is(err, syscall.EPERM) || errors.Is(err, bucket.ErrExists) || !strings.Contains(err.Error(), "hard links") {
		t.Errorf("Put = %v", err)
	}
	if left, err := fsys.List(filepath.Join("bucket", unfinished)); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

// TestDir_CancelledPut ends a Put of many bytes in the middle.
func TestDir_CancelledPut(t *testing.T) {
	m := vfs.NewMem()
	b := mustDir(t, m, "bucket")
	ctx, cancel := context.WithCancel(t.Context())
	data := make([]byte, 4*bucket.Chunk)
	err := b.Put(ctx, "object", &cancelling{data, cancel}, int64(len(data)), bucket.Checksum(data), true)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v", err)
	}
	if _, err := b.Stat(t.Context(), "object"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat = %v", err)
	}
	if left, err := m.List(filepath.Join("bucket", unfinished)); err != nil || len(left) > 0 || m.OpenFiles() > 0 {
		t.Errorf("%q is left, %d files are open, %v", left, m.OpenFiles(), err)
	}
}

// TestDir_ReadErrors fails each operation of the calls that read, with an error and with an early
// end of a file. Nobody may take that for an absent object, or for the end of one.
func TestDir_ReadErrors(t *testing.T) {
	m := vfs.NewMem()
	ok := mustDir(t, m, "bucket")
	for _, name := range []string{"id", "m/1", "m/2"} {
		mustNil(t, bucket.PutObject(t.Context(), ok, name, []byte("some bytes"), true))
	}
	calls := map[string]func(b bucket.Bucket) error{
		"stat": func(b bucket.Bucket) error { _, err := b.Stat(t.Context(), "m/1"); return err },
		"read": func(b bucket.Bucket) error { _, err := b.ReadAt(t.Context(), "m/1", make([]byte, 4), 2); return err },
		"list": func(b bucket.Bucket) error {
			n := 0
			for _, err := range b.List(t.Context(), "", "") {
				if err != nil {
					return err
				}
				n++
			}
			if n != 3 {
				t.Errorf("List has %d of 3 objects, and no error", n)
			}
			return nil
		},
		"open": func(b bucket.Bucket) error {
			fsys := b.(*dirBucket).fs
			_, err := NewDir(fsys, "bucket")
			return err
		},
	}
	for what, call := range calls {
		count := faultfs.New(m, nil)
		mustNil(t, call(&dirBucket{fs: count, root: "bucket"}))
		for k := int64(1); k <= count.Ops(); k++ {
			for _, cause := range []error{syscall.EIO, io.EOF} {
				var failed vfs.Op
				fsys := faultfs.New(m, func(op vfs.Op, _ string, n int64) error {
					if n != k {
						return nil
					}
					failed = op
					return cause
				})
				err := call(&dirBucket{fs: fsys, root: "bucket"})
				// A file that was only read may fail to close.
				if failed != vfs.OpClose && (err == nil || errors.Is(err, fs.ErrNotExist) || err == io.EOF) {
					t.Errorf("%s, operation %d of %d fails with %v: %v", what, k, count.Ops(), cause, err)
				}
			}
		}
	}
	if n := m.OpenFiles(); n != 0 {
		t.Errorf("%d files are open at the end", n)
	}
}

// A cancelling body cancels a context when it is read behind its first chunk.
type cancelling struct {
	data   []byte
	cancel func()
}

func (c *cancelling) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 {
		c.cancel()
	}
	return copy(p, c.data[off:]), nil
}

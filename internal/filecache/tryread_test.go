package filecache

import (
	"errors"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A tryFS has files that can read without waiting, and counts what is asked of them.
type tryFS struct {
	vfs.FS
	err    error // of TryReadAt
	needed int64 // bytes
}

type tryFile struct {
	vfs.File
	fs *tryFS
}

func (fs *tryFS) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	return &tryFile{f, fs}, err
}

func (f *tryFile) TryReadAt(p []byte, off int64) error {
	if f.fs.err != nil {
		return f.fs.err
	}
	_, err := f.ReadAt(p, off)
	return err
}

func (f *tryFile) WillNeed(_, n int64) { f.fs.needed += n }

// TestFile_TryReadAt checks that tries open the file, count as uses of it, and give its handle
// back. cacheFiles checks the last at the end.
func TestFile_TryReadAt(t *testing.T) {
	c, files, mem, _ := cacheFiles(t, 3, 2)
	p := make([]byte, 4)
	if err := files[0].TryReadAt(p, 0); err != vfs.ErrUnsupported {
		t.Errorf("a file that can't tell: %v, want %v", err, vfs.ErrUnsupported)
	}
	files[0].WillNeed(0, 4)
	c.Close()
	fs := &tryFS{FS: mem}
	c.fs, c.closed = fs, false
	for i, f := range files {
		if err := f.TryReadAt(p, 0); err != nil || p[3] != byte('0'+i) {
			t.Errorf("file %d: %q, %v", i, p, err)
		}
	}
	if n := mem.OpenFiles(); n != 2 {
		t.Errorf("%d files are open, want 2", n)
	}
	fs.err = vfs.ErrWouldWait
	if err := files[1].TryReadAt(p, 0); err != vfs.ErrWouldWait {
		t.Errorf("TryReadAt = %v, want %v", err, vfs.ErrWouldWait)
	}
	if files[1].WillNeed(1, 3); fs.needed != 3 {
		t.Errorf("%d bytes were asked for, want 3", fs.needed)
	}
	files[2].Close()
	if err := files[2].TryReadAt(p, 0); !errors.Is(err, ErrGone) {
		t.Errorf("a file that is gone: %v, want %v", err, ErrGone)
	}
	if files[2].WillNeed(0, 4); fs.needed != 3 {
		t.Error("bytes of a file that is gone were asked for")
	}
}

package filecache

import (
	"errors"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A farFS has the files with some paths on another machine.
type farFS struct {
	vfs.FS
	far map[string]bool
}

type farFile struct{ vfs.File }

func (fs *farFS) Open(name string) (vfs.File, error) {
	f, err := fs.FS.Open(name)
	if err == nil && fs.far[name] {
		return farFile{f}, nil
	}
	return f, err
}

type farStream struct{ vfs.File }

func (farStream) Close() error { return nil }

func (f farFile) Stream(int64) vfs.Stream { return farStream(f) }

func (f farFile) ReadNear(p []byte, off int64) error {
	_, err := f.ReadAt(p, off)
	return err
}

func (f farFile) Refetch() error { return nil }

// TestFile_Remote: a File is remote if the file is that it has opened. Of one that is not, no handle is taken, and it is not opened
// for the question. One that has moved is remote once it was reopened. cacheFiles checks at the end that all handles were given back.
func TestFile_Remote(t *testing.T) {
	c, files, mem, _ := cacheFiles(t, 3, 2)
	fs := &farFS{FS: mem, far: map[string]bool{"0000": true}}
	c.fs = fs
	p := make([]byte, 4)
	state := func(i int) (near, stream bool) {
		t.Helper()
		err := files[i].ReadNear(p, 0)
		if err != nil && err != vfs.ErrUnsupported && !errors.Is(err, ErrGone) {
			t.Error(err)
		}
		if again := files[i].Refetch(); (again == nil) != (err == nil) {
			t.Errorf("file %d: ReadNear %v, Refetch %v", i, err, again)
		}
		return err == nil && p[3] == byte('0'+i), files[i].Stream(4) != nil
	}
	for i := range files {
		readNumber(t, files, i)
		if near, stream := state(i); near != (i == 0) || stream != near {
			t.Errorf("file %d: near %v, a stream %v", i, near, stream)
		}
	}
	// File 0 has made room. It is opened again for the question, and file 1, which is local, is not.
	readNumber(t, files, 2)
	files[1].letGo()
	open := mem.OpenFiles()
	if near, stream := state(1); near || stream || mem.OpenFiles() != open {
		t.Errorf("a local file that is not open: near %v, a stream %v, %d files more are open", near, stream, mem.OpenFiles()-open)
	}
	if near, stream := state(0); !near || !stream {
		t.Errorf("a file that is not open: near %v, a stream %v", near, stream)
	}
	fs.far["0001"] = true
	files[1].Reopen()
	if near, stream := state(1); !near || !stream {
		t.Errorf("a file that has moved: near %v, a stream %v", near, stream)
	}
	fs.far["0001"] = false
	files[1].Reopen()
	for range 2 {
		if near, stream := state(1); near || stream {
			t.Errorf("a file that has come back: near %v, a stream %v", near, stream)
		}
	}
	files[0].Close()
	if near, stream := state(0); near || stream {
		t.Errorf("a file that is gone: near %v, a stream %v", near, stream)
	}
}

package shale

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A cuttingFS cuts off, when a feed has asked for the length of a log, what was reserved of it. So do rotations.
type cuttingFS struct {
	vfs.FS
	wait int // how many times it is asked first; 0: it cuts nothing
}

type cuttingFile struct {
	vfs.File
	fs   *cuttingFS
	name string
}

func (c *cuttingFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".wal") {
		return f, err
	}
	return &cuttingFile{f, c, name}, nil
}

func (f *cuttingFile) Size() (int64, error) {
	size, err := f.File.Size()
	if f.fs.wait--; f.fs.wait != 0 || err != nil {
		return size, err
	}
	b := make([]byte, size)
	_, err = f.File.ReadAt(b, 0)
	w, werr := f.fs.OpenReadWrite(f.name)
	if err = errors.Join(err, werr); err == nil {
		err = errors.Join(w.Truncate(int64(len(bytes.TrimRight(b, "\x00"))+4095)&^4095), w.Close())
	}
	return size, err
}

// A log that is read may lose what was reserved of it.
func TestChanges_LogIsCut(t *testing.T) {
	for wait := 1; ; wait++ {
		disk := &cuttingFS{FS: vfs.NewMem()}
		db := openTest(t, feedOptions(disk))
		mustPut(t, db, "a", strings.Repeat("1", 110<<10)) // more than the header promises
		mustPut(t, db, "b", "1")
		disk.wait = wait
		wantChanges(t, db, 0, 2, "1-1 put a=11111111", "2-2 put b=1")
		if disk.wait > 0 {
			if wait < 3 {
				t.Errorf("the length was asked for %d times", wait-1)
			}
			return
		}
	}
}

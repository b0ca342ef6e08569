package harness

import (
	"io"
	"math/rand/v2"
	"syscall"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A moodyFS is a disk whose files can read what is in the system's memory without waiting for the device
// (vfs.TryReader). Chance decides whether such a read succeeds, would wait, can't tell, fails, or
// returns wrong bytes. None of that may show.
type moodyFS struct{ *faultfs.FS }

func (m moodyFS) Open(name string) (vfs.File, error) {
	f, err := m.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return moodyFile{f}, nil
}

// Bind binds the disk below, so that Open stays the one above.
func (m moodyFS) Bind(lock io.Closer) (vfs.FS, error) {
	bound, err := m.FS.Bind(lock)
	if err != nil {
		return nil, err
	}
	return moodyFS{bound.(*faultfs.FS)}, nil
}

type moodyFile struct{ vfs.File }

func (f moodyFile) TryReadAt(p []byte, off int64) error {
	switch rand.IntN(8) {
	case 0:
		return vfs.ErrUnsupported
	case 1:
		return syscall.EIO
	case 2:
		for i := range p {
			p[i] = byte(rand.Uint32())
		}
		return nil
	case 3, 4:
		return vfs.ErrWouldWait
	}
	_, err := f.ReadAt(p, off)
	return err
}

func (moodyFile) WillNeed(int64, int64) {}

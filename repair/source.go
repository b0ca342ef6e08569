package repair

import (
	"errors"
	"io"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/vfs"
)

// A source is the file system as a damaged store is read: no file can be
// changed, and what the device can't read is zeros, which pass no checksum.
type source struct {
	vfs.FS // only Open, List and Stat are reached

	mu     sync.Mutex
	unread map[string]unreadable // by name within the folder
}

// unreadable is the first place of a file that could not be read.
type unreadable struct {
	offset int64
	err    error
}

var errSource = errors.New("repair: the damaged store is only read")

func newSource(fsys vfs.FS) *source { return &source{FS: fsys, unread: make(map[string]unreadable)} }

func (s *source) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &sourceFile{File: f, source: s, name: filepath.Base(name)}, nil
}

// unreadIn returns where the file first could not be read.
func (s *source) unreadIn(name string) (u unreadable, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, found = s.unread[name]
	return u, found
}

func (s *source) note(name string, offset int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, found := s.unread[name]; !found || offset < u.offset {
		s.unread[name] = unreadable{offset, err}
	}
}

func (s *source) Create(string) (vfs.File, error)        { return nil, errSource }
func (s *source) OpenReadWrite(string) (vfs.File, error) { return nil, errSource }
func (s *source) Rename(string, string) error            { return errSource }
func (s *source) Remove(string) error                    { return errSource }
func (s *source) Link(string, string) error              { return errSource }
func (s *source) MkdirAll(string) error                  { return errSource }
func (s *source) Lock(string) (io.Closer, error)         { return nil, errSource }
func (s *source) SyncDir(string) error                   { return errSource }

// A sourceFile is a file of a source.
type sourceFile struct {
	vfs.File
	source *source
	name   string
}

// sector is the unit in which a device fails.
const sector = 4096

// ReadAt reads around what can't be read.
func (f *sourceFile) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = f.File.ReadAt(p, off)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	for n = 0; n < len(p); {
		size := min(sector-int((off+int64(n))%sector), len(p)-n)
		part := p[n : n+size]
		got, err := f.File.ReadAt(part, off+int64(n))
		switch {
		case errors.Is(err, io.EOF):
			return n + got, err
		case err != nil:
			f.source.note(f.name, off+int64(n), err)
			clear(part)
		}
		n += size
	}
	return n, nil
}

func (f *sourceFile) WriteAt([]byte, int64) (int, error) { return 0, errSource }
func (f *sourceFile) Write([]byte) (int, error)          { return 0, errSource }
func (f *sourceFile) Sync() error                        { return errSource }
func (f *sourceFile) Truncate(int64) error               { return errSource }
func (f *sourceFile) Preallocate(int64) error            { return errSource }

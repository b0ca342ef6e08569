package repair

import (
	"errors"
	"io"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/vfs"
)

// A source is the file system through which a damaged store is read. It does not
// change any file. Where the device cannot read, it returns zeros, which pass no
// checksum, and notes the place.
type source struct {
	vfs.FS // only Open, List and Stat are called

	read func(n int) // Options.Read

	// By name in the folder, guarded by mu.
	mu      sync.Mutex
	unread  map[string]unreadable
	reached map[string]int64 // how far the file was read from its beginning
}

// An unreadable is the first place in a file that could not be read.
type unreadable struct {
	offset int64
	err    error
}

var errSource = errors.New("repair: the damaged store is only read")

func newSource(o Options) *source {
	return &source{FS: o.FS, read: o.Read, unread: make(map[string]unreadable), reached: make(map[string]int64)}
}

// Open returns a file that reads around damaged sectors and cannot be changed.
func (s *source) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &sourceFile{File: f, source: s, name: filepath.Base(name)}, nil
}

// unreadIn returns the first place of the file that could not be read, if there is one.
func (s *source) unreadIn(name string) (u unreadable, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, found = s.unread[name]
	return u, found
}

// note remembers an unreadable place. Of several in a file it keeps the first.
func (s *source) note(name string, offset int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, found := s.unread[name]; !found || offset < u.offset {
		s.unread[name] = unreadable{offset, err}
	}
}

// count tells Options.Read of a read from off up to to, without what was read of the file before. What lies
// behind a gap will be read once more when the gap was. The rest of a sector is none: nobody reads what is
// between the header of a log and its records.
func (s *source) count(name string, off, to int64) {
	s.mu.Lock()
	n := to - s.reached[name]
	if n < 0 || off > s.reached[name]+sector {
		n = 0
	}
	s.reached[name] += n
	s.mu.Unlock()
	s.read(int(n))
}

// The other methods of vfs.FS would change the store. They fail.
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
	name   string // without the folder
}

// sector is the number of bytes that a device reads or fails to read as one.
const sector = 4096

// ReadAt reads p in one piece. If that fails, it reads sector by sector, and returns zeros
// for those that cannot be read.
func (f *sourceFile) ReadAt(p []byte, off int64) (n int, err error) {
	n, err = f.File.ReadAt(p, off)
	f.source.count(f.name, off, off+int64(n))
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	// Read up to the next multiple of sector at a time.
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

// The other methods of vfs.File would change the file. They fail.
func (f *sourceFile) WriteAt([]byte, int64) (int, error) { return 0, errSource }
func (f *sourceFile) Write([]byte) (int, error)          { return 0, errSource }
func (f *sourceFile) Sync() error                        { return errSource }
func (f *sourceFile) Truncate(int64) error               { return errSource }
func (f *sourceFile) Preallocate(int64) error            { return errSource }

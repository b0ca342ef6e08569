package remote

import (
	"io"

	"github.com/shaledb/shale/vfs"
)

// How records of a segment are checked before they are in any file.

// A segmentFS is a file system with one file, of which only the header and a stretch are there: that is all
// that wal.ReadRange reads. So the records of a segment are checked by the code that checks those of a local log, before
// anything is written to the follower's directory.
type segmentFS struct {
	vfs.FS
	vfs.File
	header []byte
	at     int64
	body   []byte
	least  int64 // the size that the file has at least
}

// Open returns the one file, whatever it is called.
func (s *segmentFS) Open(string) (vfs.File, error) { return s, nil }
func (s *segmentFS) Close() error                  { return nil }
func (s *segmentFS) Size() (int64, error)          { return max(s.at+int64(len(s.body)), s.least), nil }

// ReadAt reads from the header or the stretch. What lies between is zeros.
// The file is at least as long as its header says: a shorter one would count as a log that was
// never used.
func (s *segmentFS) ReadAt(p []byte, off int64) (n int, err error) {
	end := s.at + int64(len(s.body))
	clear(p)
	if off < int64(len(s.header)) {
		copy(p, s.header[off:])
	}
	if off+int64(len(p)) > s.at && off < end {
		copy(p[max(s.at-off, 0):], s.body[max(off-s.at, 0):])
	}
	if end = max(end, s.least); off+int64(len(p)) > end {
		return int(max(end-off, 0)), io.EOF
	}
	return len(p), nil
}

package repair

import (
	"io"
)

// An aheadReader reads a file in larger pieces than it is asked for. It helps when a file
// is read from front to back. One goroutine uses it.
type aheadReader struct {
	file io.ReaderAt
	size int64
	buf  []byte // bytes of the file from offset at
	at   int64
}

// readahead is how many bytes are read at a time.
const readahead = 256 << 10

// ReadAt implements io.ReaderAt. A read that is as large as readahead, or that passes the
// end of the file, goes to the file itself.
func (a *aheadReader) ReadAt(p []byte, off int64) (int, error) {
	if n := off - a.at; n >= 0 && n+int64(len(p)) <= int64(len(a.buf)) {
		return copy(p, a.buf[n:]), nil
	}
	if len(p) >= readahead || off+int64(len(p)) > a.size {
		return a.file.ReadAt(p, off)
	}
	if a.buf == nil {
		a.buf = make([]byte, min(readahead, a.size))
	}
	a.buf = a.buf[:min(readahead, a.size-off)]
	n, err := a.file.ReadAt(a.buf, off)
	a.buf, a.at = a.buf[:n], off
	if n < len(p) {
		return copy(p, a.buf), err
	}
	return copy(p, a.buf), nil
}

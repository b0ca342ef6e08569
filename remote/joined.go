package remote

import (
	"errors"
	"io"
)

// A joined is the bytes of two slices, one after the other, without a copy of them.
type joined struct{ head, body []byte }

func (j joined) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("remote: read at a negative offset")
	}
	at, head := off, int64(len(j.head))
	if at < head {
		n = copy(p, j.head[at:])
		at += int64(n)
	}
	if at -= head; at >= 0 && at < int64(len(j.body)) {
		n += copy(p[n:], j.body[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

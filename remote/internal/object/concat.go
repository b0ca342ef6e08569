package object

import (
	"errors"
	"io"
)

// A Concat is the bytes of two slices, one after the other, without a copy of them.
// A segment is PUT like this: its body may have hundreds of MiB, and its header stands before it.
// The slices belong to the caller, and must not change during the PUT.
type Concat struct{ Head, Body []byte }

// ReadAt implements io.ReaderAt. A read may begin in the one slice and end in the other.
func (j Concat) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("remote: read at a negative offset")
	}
	at, head := off, int64(len(j.Head))
	if at < head {
		n = copy(p, j.Head[at:])
		at += int64(n)
	}
	if at -= head; at >= 0 && at < int64(len(j.Body)) {
		n += copy(p[n:], j.Body[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/shaledb/shale/remote"
)

// The body of a PUT on its way to the server: how it is summed, watched and taken back.

// sumMD5 reads the first size bytes of body and returns their MD5 as the header Content-MD5 has it. If body
// ends early, the error wraps io.ErrUnexpectedEOF.
//
// The MD5 tells the server whether the bytes that arrive are those that were read here. It adds nothing to
// a crc32c that the server checks; but some check only one of the two.
func sumMD5(ctx context.Context, body io.ReaderAt, size int64) (string, error) {
	hash := md5.New()
	n, err := io.Copy(hash, &contextReader{ctx, io.NewSectionReader(body, 0, size)})
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", bodyError(err)
	}
	return base64.StdEncoding.EncodeToString(hash.Sum(nil)), nil
}

// bodyError returns the error of a body that can't be read. That is not the server's fault, so another call
// would not do better.
func bodyError(err error) error { return &RefusedError{fmt.Errorf("read the body: %w", err)} }

// tooLarge returns the error of a body of more than maxObject bytes.
// A body that ends before size has the error of a body that ends early, as for any other size.
func tooLarge(body io.ReaderAt, size int64) error {
	if _, err := body.ReadAt(make([]byte, 1), size-1); err == io.EOF {
		return bodyError(io.ErrUnexpectedEOF)
	} else if err != nil {
		return bodyError(err)
	}
	return &RefusedError{fmt.Errorf("it has %d bytes, at most %d (5 GiB) can be put", size, int64(maxObject))}
}

// A contextReader fails once its context is done. It says of each piece that bytes move.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read reports progress before each piece, so a call that hangs within the server is noticed after
// the last one.
func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	remote.Progress(c.ctx)
	return c.r.Read(p)
}

// errDetached is what the transport gets if it reads a body after the end of the call.
var errDetached = errors.New("the call has ended")

// A loan is a body that is lent to the HTTP transport. The transport may go on reading after it has
// answered, as when a server refuses an object before it has seen all of it; detach takes the body back.
//
// It can't be rewound, which is how minio-go knows that a request must not be sent twice.
type loan struct {
	mu   sync.Mutex // held during a read, so that detach waits for it
	r    io.Reader
	done bool
}

// Read reads from the body for as long as it is lent.
func (l *loan) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return 0, errDetached
	}
	return l.r.Read(p)
}

// detach returns once nobody reads the body any more, nor will.
func (l *loan) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
}

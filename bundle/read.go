package bundle

import (
	"errors"
	"fmt"
	"io"
)

// firstRead is how much Read takes the header's word for before there is more.
const firstRead = 1 << 20

// Read reads a bundle from r, which has nothing else, into memory whose lines
// are cache lines, and opens it. One of more than limit bytes is refused before
// it is read. What r does not have is not allocated: a length that lies costs
// one or two megabytes.
func Read(r io.Reader, limit int64) (*Bundle, error) {
	buf := make([]byte, headerLen)
	if err := fill(r, buf, 0); err != nil {
		return nil, err
	}
	h, err := decodeHeader(buf)
	if err != nil {
		return nil, err
	}
	if h.length > uint64(max(limit, 0)) {
		return nil, fmt.Errorf("bundle: read: %d bytes are more than the limit of %d", h.length, limit)
	}
	for have := headerLen; have < int(h.length); have = len(buf) {
		n := min(h.length, max(firstRead, 2*uint64(have)))
		// A whole number of lines: the allocator aligns such sizes to 64.
		longer := make([]byte, aligned(n))[:n]
		copy(longer, buf)
		buf = longer
		if err := fill(r, buf, have); err != nil {
			return nil, err
		}
	}
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); {
	case err == nil:
		return nil, damage("there is more behind its %d bytes", h.length)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("bundle: read: %w", err)
	}
	return Open(buf)
}

// fill reads buf from offset from on.
func fill(r io.Reader, buf []byte, from int) error {
	n, err := io.ReadFull(r, buf[from:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damage("it ends after %d bytes", from+n)
	}
	if err != nil {
		return fmt.Errorf("bundle: read: %w", err)
	}
	return nil
}

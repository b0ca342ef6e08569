package bundle

import (
	"errors"
	"fmt"
	"io"
)

// firstRead is the most bytes that Read allocates because of the header's length alone.
const firstRead = 1 << 20

// Read reads a bundle from r and opens it. r must have nothing else. The memory is
// aligned, so that a line of a filter is a cache line. A bundle of more than limit bytes
// is refused before it is read.
//
// Memory is allocated as bytes arrive, at most twice as much. So a wrong length in the
// header costs one or two megabytes.
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
		// The size is a whole number of lines. The allocator aligns such sizes to 64.
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

// fill reads buf[from:], all of it. from is only the offset for the error.
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

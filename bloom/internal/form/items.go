package form

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// pieceBytes is how much of a filter of another program is read or written at a time. A header
// that promises more than there is costs at most that much memory.
const pieceBytes = 4096

// WriteItems writes head and the items to w, each as put appends it. Requires: there are items.
func WriteItems[T any](w io.Writer, head []byte, items []T, put func(dst []byte, item T) []byte) (n int64, err error) {
	buf := slices.Grow(head, pieceBytes)
	for i, item := range items {
		if buf = put(buf, item); len(buf) < pieceBytes && i < len(items)-1 {
			continue
		}
		m, err := w.Write(buf)
		if n += int64(m); err != nil {
			return n, err
		}
		buf = buf[:0]
	}
	return n, nil
}

// ReadItems reads count items of size bytes each from r, and not a byte more. It never holds
// more than twice the memory of what it has read.
func ReadItems[T any](r io.Reader, count, size int, decode func(b []byte) T) (items []T, n int64, err error) {
	var piece [pieceBytes]byte
	for left := count; left > 0; left = count - len(items) {
		b := piece[:size*min(left, pieceBytes/size)]
		m, err := io.ReadFull(r, b)
		if n += int64(m); err != nil {
			return nil, n, err
		}
		if cap(items)-len(items) < len(b)/size {
			items = slices.Grow(items, min(left, max(pieceBytes/size, len(items))))
		}
		for ; len(b) > 0; b = b[size:] {
			items = append(items, decode(b))
		}
	}
	return items, n, nil
}

// ReadError returns the error of a package that reads a filter of another program, from the
// error of the reader, which came after n bytes. If the reader has ended, it wraps ErrDamaged,
// and io.ErrUnexpectedEOF, or io.EOF if there was nothing.
func ReadError(pkg string, err error, n int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s: read filter: %w: it ends after %d bytes: %w", pkg, ErrDamaged, n, err)
	}
	return fmt.Errorf("%s: read filter: %w", pkg, err)
}

// Package pieces reads bytes whose number a header promises, without believing the header.
package pieces

import "io"

// first is how many bytes are read, and allocated, at first.
const first = 4096

// Read returns the next n bytes of r. It reads them in pieces that grow with what has been
// read, so a wrong n costs no more memory than twice the bytes that are there. Together with
// an error it returns the bytes that came before the error, which is the one of
// io.ReadFull: io.EOF if the stream ends between two pieces, io.ErrUnexpectedEOF inside one.
//
// Requires: n fits into an int.
func Read(r io.Reader, n uint64) (b []byte, err error) {
	for uint64(len(b)) < n {
		size := int(min(n-uint64(len(b)), uint64(max(first, len(b)))))
		// append and slices.Grow would take more than the double.
		b = append(make([]byte, 0, len(b)+size), b...)
		m, err := io.ReadFull(r, b[len(b):len(b)+size])
		if b = b[:len(b)+m]; err != nil {
			return b, err
		}
	}
	return b, nil
}

package remote

import (
	"errors"
	"hash/crc32"
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

// joinSums returns the crc32c of two byte sequences, one after the other, of which the crc32c are a and b. The
// second one has n bytes. It takes a microsecond at most.
//
// A crc32c is the remainder of a polynomial over GF(2). Bytes that follow multiply the polynomial of those before
// by x^8 each.
func joinSums(a, b uint32, n int64) uint32 {
	shift, square := uint32(1<<31), uint32(1<<(31-8)) // x^0 and x^8; the highest bit is the lowest power
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			shift = multiply(shift, square)
		}
		square = multiply(square, square)
	}
	return multiply(shift, a) ^ b
}

// multiply returns the product of two polynomials modulo that of crc32c.
func multiply(a, b uint32) (product uint32) {
	for bit := uint32(1 << 31); bit > 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		b = b>>1 ^ b&1*crc32.Castagnoli
	}
	return product
}

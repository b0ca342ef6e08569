package guava

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom"
)

// The header of the format:
//
//	 0        1 2      6
//	|strategy|k|L (BE)|L longs (BE)
const headerLen = 6

// pieceWords is how many words are read or written at a time. A header that promises more
// words than there are costs at most that much memory.
const pieceWords = 512

// AppendBinary appends the filter in Guava's format. The error is ErrParameters, with dst
// as it was, for the zero value.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.words) == 0 {
		return dst, fmt.Errorf("guava: write filter: %w: no bits", ErrParameters)
	}
	dst = append(slices.Grow(dst, headerLen+8*len(f.words)), byte(f.strategy), byte(f.k))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.words)))
	for _, w := range f.words {
		dst = binary.BigEndian.AppendUint64(dst, w)
	}
	return dst, nil
}

// MarshalBinary returns the filter in Guava's format: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter in Guava's format, as writeTo does there. The error is that of
// w, or ErrParameters for the zero value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.words) == 0 {
		return 0, fmt.Errorf("guava: write filter: %w: no bits", ErrParameters)
	}
	buf := append(make([]byte, 0, headerLen+8*pieceWords), byte(f.strategy), byte(f.k))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(f.words)))
	for words := range slices.Chunk(f.words, pieceWords) {
		for _, v := range words {
			buf = binary.BigEndian.AppendUint64(buf, v)
		}
		m, err := w.Write(buf)
		n += int64(m)
		if err != nil {
			return n, fmt.Errorf("guava: write filter: %w", err)
		}
		buf = buf[:0]
	}
	return n, nil
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form.
func (f Filter) MarshalText() ([]byte, error) {
	b, err := f.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Filter) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damage("%v", err)
	}
	return f.UnmarshalBinary(b)
}

// UnmarshalBinary replaces the filter by the one that b is, all of b. It keeps nothing of
// b. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	if len(b) >= headerLen {
		// The length is checked before anything is allocated.
		if want := headerLen + 8*uint64(binary.BigEndian.Uint32(b[2:])); uint64(len(b)) != want {
			return damage("%d bytes, the header tells of %d", len(b), want)
		}
	}
	_, err := f.ReadFrom(bytes.NewReader(b))
	return err
}

// ReadFrom replaces the filter by the next one in r, and reads no further than its end.
// After an error the filter is as it was.
//
// It never holds more than twice the memory of what it has read. If r ends too early, the
// error wraps bloom.ErrDamaged, and io.ErrUnexpectedEOF, or io.EOF if r was empty. Other
// errors of r are wrapped too.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	var head [headerLen]byte
	m, err := io.ReadFull(r, head[:])
	n = int64(m)
	if err != nil {
		return n, readError(err, n)
	}
	made := Filter{strategy: Strategy(head[0]), k: int(head[1])}
	longs := binary.BigEndian.Uint32(head[2:])
	switch {
	case made.strategy > MITZ64:
		return n, fmt.Errorf("guava: read filter: %w: %v", bloom.ErrUnknown, made.strategy)
	case made.k == 0:
		return n, damage("0 hash functions")
	case longs == 0 || longs > min(math.MaxInt32, math.MaxInt/8):
		return n, damage("%d longs", longs)
	}
	var piece [8 * pieceWords]byte
	for left := int(longs); left > 0; left = int(longs) - len(made.words) {
		b := piece[:8*min(left, pieceWords)]
		m, err := io.ReadFull(r, b)
		n += int64(m)
		if err != nil {
			return n, readError(err, n)
		}
		if free := cap(made.words) - len(made.words); free < len(b)/8 {
			made.words = slices.Grow(made.words, min(left, max(pieceWords, len(made.words))))
		}
		for ; len(b) > 0; b = b[8:] {
			made.words = append(made.words, binary.BigEndian.Uint64(b))
		}
	}
	*f = made
	return n, nil
}

// readError makes the error of ReadFrom from the error err of the reader, which
// came after n bytes.
func readError(err error, n int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("guava: read filter: %w: it ends after %d bytes: %w", bloom.ErrDamaged, n, err)
	}
	return fmt.Errorf("guava: read filter: %w", err)
}

func damage(format string, args ...any) error {
	return fmt.Errorf("guava: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

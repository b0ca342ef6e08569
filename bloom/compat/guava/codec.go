package guava

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// The header of the format:
//
//	 0        1 2      6
//	|strategy|k|L (BE)|L longs (BE)
const headerLen = 6

// AppendBinary appends the filter in Guava's format. The error is [ErrParameters], with dst
// as it was, for the zero value.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.words) == 0 {
		return dst, fmt.Errorf("guava: write filter: %w: no bits", ErrParameters)
	}
	dst = f.header(slices.Grow(dst, headerLen+8*len(f.words)))
	for _, w := range f.words {
		dst = binary.BigEndian.AppendUint64(dst, w)
	}
	return dst, nil
}

// MarshalBinary returns the filter in Guava's format: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter in Guava's format, as writeTo does there. The error is that of
// w, or [ErrParameters] for the zero value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.words) == 0 {
		return 0, fmt.Errorf("guava: write filter: %w: no bits", ErrParameters)
	}
	n, err = form.WriteItems(w, f.header(nil), f.words, binary.BigEndian.AppendUint64)
	if err != nil {
		return n, fmt.Errorf("guava: write filter: %w", err)
	}
	return n, nil
}

// header appends what stands in front of the words.
func (f *Filter) header(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(f.strategy), byte(f.k)), uint32(len(f.words)))
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form.
func (f Filter) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Filter) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

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
		return n, form.ReadError("guava", err, n)
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
	words, read, err := form.ReadItems(r, int(longs), 8, binary.BigEndian.Uint64)
	if n += read; err != nil {
		return n, form.ReadError("guava", err, n)
	}
	made.words = words
	*f = made
	return n, nil
}

func damage(format string, args ...any) error {
	return fmt.Errorf("guava: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

package bip37

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// trailerLen is the length of the fields that follow the bytes:
//
//	 0         4     8     9
//	|hash funcs|tweak|flags|
const trailerLen = 9

// compact16 is the first byte of a CompactSize of 16 bits. MaxBytes does not need
// a longer one.
const compact16 = 0xfd

// AppendBinary appends the payload of a filterload. The error is always nil.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	dst = slices.Grow(dst, 3+len(f.data)+trailerLen)
	if len(f.data) < compact16 {
		dst = append(dst, byte(len(f.data)))
	} else {
		dst = binary.LittleEndian.AppendUint16(append(dst, compact16), uint16(len(f.data)))
	}
	dst = append(dst, f.data...)
	dst = binary.LittleEndian.AppendUint32(dst, f.hashFuncs)
	dst = binary.LittleEndian.AppendUint32(dst, f.tweak)
	return append(dst, byte(f.flags)), nil
}

// MarshalBinary returns the payload of a filterload. The error is always nil.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the payload of a filterload.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	b, err := f.MarshalBinary()
	if err != nil {
		return 0, err
	}
	m, err := w.Write(b)
	if err != nil {
		err = fmt.Errorf("bip37: write filter: %w", err)
	}
	return int64(m), err
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form.
func (f Filter) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Filter) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// UnmarshalBinary replaces the filter by the payload b of a filterload, all of b. It keeps
// nothing of b. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	var made Filter
	n, err := made.ReadFrom(bytes.NewReader(b))
	if err == nil && n != int64(len(b)) {
		err = damage("%d bytes behind it", int64(len(b))-n)
	}
	if err == nil {
		*f = made
	}
	return err
}

// ReadFrom replaces the filter by the next payload of a filterload in r, and reads no
// further than its end. After an error the filter is as it was.
//
// For a filter with more than [MaxBytes] the error is bloom.ErrDamaged, before its bytes
// are read. It is the same for more than [MaxHashFuncs]. If r ends too early, the error
// wraps bloom.ErrDamaged, and io.ErrUnexpectedEOF, or io.EOF if r was empty. Other
// errors of r are wrapped too.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	read := func(b []byte) error {
		m, err := io.ReadFull(r, b)
		n += int64(m)
		if err != nil {
			return form.ReadError("bip37", err, n)
		}
		return nil
	}
	var head [3]byte
	if err := read(head[:1]); err != nil {
		return n, err
	}
	size := int(head[0])
	switch {
	case size > compact16:
		return n, damage("a length of more than 16 bits, %d bytes are allowed", MaxBytes)
	case size == compact16:
		if err := read(head[1:]); err != nil {
			return n, err
		}
		if size = int(binary.LittleEndian.Uint16(head[1:])); size < compact16 {
			return n, damage("length %d in 3 bytes", size)
		}
	}
	if size > MaxBytes {
		return n, damage("%d bytes, %d are allowed", size, MaxBytes)
	}
	b := make([]byte, size+trailerLen)
	if err := read(b); err != nil {
		return n, err
	}
	tail := b[size:]
	made := Filter{
		data:      b[:size:size],
		hashFuncs: binary.LittleEndian.Uint32(tail),
		tweak:     binary.LittleEndian.Uint32(tail[4:]),
		flags:     Flags(tail[8]),
	}
	if made.hashFuncs > MaxHashFuncs {
		return n, damage("%d hash functions, %d are allowed", made.hashFuncs, MaxHashFuncs)
	}
	*f = made
	return n, nil
}

func damage(format string, args ...any) error {
	return fmt.Errorf("bip37: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// AppendBits appends the blocks without a header.
func (f *Filter) AppendBits(dst []byte) []byte {
	dst = slices.Grow(dst, f.SizeBytes())
	for _, b := range f.blocks {
		dst = appendBlock(dst, b)
	}
	return dst
}

// OpenBits returns the filter with the blocks b, which have no header. It keeps
// nothing of b.
func OpenBits(b []byte) (*Filter, error) {
	f, err := NewBytes(len(b))
	if err != nil {
		return nil, damage("%d bytes of blocks", len(b))
	}
	for i := range f.blocks {
		f.blocks[i] = blockOf(b[i*BlockBytes:])
	}
	return f, nil
}

// appendBlock appends the words of the block, little-endian.
func appendBlock(dst []byte, b block) []byte {
	for _, w := range b {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	return dst
}

// blockOf returns the block that appendBlock wrote as the first BlockBytes of from.
func blockOf(from []byte) (b block) {
	for j := range b {
		b[j] = binary.LittleEndian.Uint32(from[4*j:])
	}
	return b
}

// AppendBinary appends the filter as it stands in a file: header and blocks. For the zero
// value it returns [ErrParameters] and dst as it was.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.blocks) == 0 {
		return dst, errNoBlocks()
	}
	return f.AppendBits(appendHeader(dst, f.SizeBytes())), nil
}

// MarshalBinary returns the filter as it stands in a file: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter as it stands in a file. The error is that of w, or
// [ErrParameters] for the zero value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.blocks) == 0 {
		return 0, errNoBlocks()
	}
	n, err = form.WriteItems(w, appendHeader(nil, f.SizeBytes()), f.blocks, appendBlock)
	if err != nil {
		return n, fmt.Errorf("parquet: write filter: %w", err)
	}
	return n, nil
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form.
func (f Filter) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Filter) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// UnmarshalBinary replaces the filter by the one whose header and blocks are b, all of b.
// It keeps nothing of b. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	d := decoder{r: bytes.NewReader(b)}
	numBytes, err := d.header()
	if err != nil {
		return err
	}
	if b = b[d.n:]; len(b) != numBytes {
		return damage("%d bytes of blocks, the header tells of %d", len(b), numBytes)
	}
	made, err := OpenBits(b)
	if err == nil {
		*f = *made
	}
	return err
}

// ReadFrom replaces the filter by the next header and blocks in r, and reads no further
// than their end. After an error the filter is as it was.
//
// It reads the header byte by byte. It never holds more than twice the memory of what it
// has read. If r ends too early, the error wraps bloom.ErrDamaged, and io.ErrUnexpectedEOF,
// or io.EOF if r was empty. Other errors of r are wrapped too.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	d := decoder{r: r}
	numBytes, err := d.header()
	if n = d.n; err != nil {
		return n, err
	}
	blocks, read, err := form.ReadItems(r, numBytes/BlockBytes, BlockBytes, blockOf)
	if n += read; err != nil {
		return n, form.ReadError("parquet", err, n)
	}
	f.blocks = blocks
	return n, nil
}

func damage(format string, args ...any) error {
	return fmt.Errorf("parquet: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

func errNoBlocks() error {
	return fmt.Errorf("parquet: write filter: %w: no blocks", ErrParameters)
}

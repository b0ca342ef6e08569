package parquet

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/shaledb/shale/bloom"
)

// pieceBlocks is how many blocks are read or written at a time. A header that promises more
// blocks than there are costs at most that much memory.
const pieceBlocks = 128

// AppendBits appends the blocks without a header.
func (f *Filter) AppendBits(dst []byte) []byte {
	dst = slices.Grow(dst, f.SizeBytes())
	for i := range f.blocks {
		dst = appendBlock(dst, &f.blocks[i])
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
		readBlock(&f.blocks[i], b[i*BlockBytes:])
	}
	return f, nil
}

// appendBlock appends the words of the block, little-endian.
func appendBlock(dst []byte, b *block) []byte {
	for _, w := range b {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	return dst
}

// readBlock sets the block to the first BlockBytes of from.
func readBlock(b *block, from []byte) {
	for j := range b {
		b[j] = binary.LittleEndian.Uint32(from[4*j:])
	}
}

// AppendBinary appends the filter as it stands in a file: header and blocks. For the zero
// value it returns ErrParameters and dst as it was.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.blocks) == 0 {
		return dst, errNoBlocks()
	}
	return f.AppendBits(appendHeader(dst, f.SizeBytes())), nil
}

// MarshalBinary returns the filter as it stands in a file: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter as it stands in a file. The error is that of w, or
// ErrParameters for the zero value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.blocks) == 0 {
		return 0, errNoBlocks()
	}
	buf := appendHeader(make([]byte, 0, 32+BlockBytes*pieceBlocks), f.SizeBytes())
	for blocks := range slices.Chunk(f.blocks, pieceBlocks) {
		for i := range blocks {
			buf = appendBlock(buf, &blocks[i])
		}
		m, err := w.Write(buf)
		n += int64(m)
		if err != nil {
			return n, fmt.Errorf("parquet: write filter: %w", err)
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
	total := numBytes / BlockBytes
	var blocks []block
	var piece [BlockBytes * pieceBlocks]byte
	for left := total; left > 0; left = total - len(blocks) {
		b := piece[:BlockBytes*min(left, pieceBlocks)]
		m, err := io.ReadFull(r, b)
		n += int64(m)
		if err != nil {
			return n, readError(err, n)
		}
		if free := cap(blocks) - len(blocks); free < len(b)/BlockBytes {
			blocks = slices.Grow(blocks, min(left, max(pieceBlocks, len(blocks))))
		}
		for ; len(b) > 0; b = b[BlockBytes:] {
			blocks = append(blocks, block{})
			readBlock(&blocks[len(blocks)-1], b)
		}
	}
	f.blocks = blocks
	return n, nil
}

// readError makes the error of ReadFrom from the error err of the reader, which
// came after n bytes.
func readError(err error, n int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("parquet: read filter: %w: it ends after %d bytes: %w", bloom.ErrDamaged, n, err)
	}
	return fmt.Errorf("parquet: read filter: %w", err)
}

func damage(format string, args ...any) error {
	return fmt.Errorf("parquet: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

func errNoBlocks() error {
	return fmt.Errorf("parquet: write filter: %w: no blocks", ErrParameters)
}

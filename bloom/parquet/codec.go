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

// pieceBlocks is how many blocks are read or written at a time. A length that
// the bytes do not bear out costs no more than that.
const pieceBlocks = 128

// AppendBits appends the blocks alone.
func (f *Filter) AppendBits(dst []byte) []byte {
	dst = slices.Grow(dst, f.SizeBytes())
	for i := range f.blocks {
		dst = f.blocks[i].append(dst)
	}
	return dst
}

// OpenBits returns the filter whose blocks b is. It keeps nothing of b.
func OpenBits(b []byte) (*Filter, error) {
	f, err := NewBytes(len(b))
	if err != nil {
		return nil, damage("%d bytes of blocks", len(b))
	}
	for i := range f.blocks {
		f.blocks[i].read(b[i*BlockBytes:])
	}
	return f, nil
}

func (b *block) append(dst []byte) []byte {
	for _, w := range b {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	return dst
}

func (b *block) read(from []byte) {
	for j := range b {
		b[j] = binary.LittleEndian.Uint32(from[4*j:])
	}
}

// AppendBinary appends the filter as it is in a file: header and blocks.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.blocks) == 0 {
		return dst, errNoBlocks()
	}
	return f.AppendBits(appendHeader(dst, f.SizeBytes())), nil
}

// MarshalBinary returns the filter as it is in a file.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter as it is in a file.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.blocks) == 0 {
		return 0, errNoBlocks()
	}
	buf := appendHeader(make([]byte, 0, 32+BlockBytes*pieceBlocks), f.SizeBytes())
	for blocks := range slices.Chunk(f.blocks, pieceBlocks) {
		for i := range blocks {
			buf = blocks[i].append(buf)
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

// MarshalText returns the bytes of MarshalBinary in base64. It is what encoding/json or encoding/xml
// writes of a filter.
func (f Filter) MarshalText() ([]byte, error) {
	b, err := f.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText replaces the filter by the one that MarshalText made text of. On an
// error the filter stays as it was.
func (f *Filter) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damage("%v", err)
	}
	return f.UnmarshalBinary(b)
}

// UnmarshalBinary replaces the filter by the one that b is, header and blocks, and
// nothing but that. It copies what it keeps. On an error the filter stays as it was.
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

// ReadFrom replaces the filter by the one that r goes on with, header and
// blocks, and reads no further than its end. On an error the filter stays as it was.
//
// The header is read byte by byte. What is kept in memory is never more than twice
// what has been read. Bytes that end too early wrap bloom.ErrDamaged and
// io.ErrUnexpectedEOF, or io.EOF if there were none; other errors of r are passed on.
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
			blocks[len(blocks)-1].read(b)
		}
	}
	f.blocks = blocks
	return n, nil
}

// readError is for an error of the reader after n bytes.
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

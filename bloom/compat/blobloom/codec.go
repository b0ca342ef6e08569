package blobloom

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
	"github.com/shaledb/shale/bloom/compat/internal/pieces"
)

// The header: see the package comment.
const (
	magic     = "blobloom"
	headerLen = 64
	noteAt    = headerLen - MaxComment
)

// Open returns the filter that b is, all of b. It does not copy b, which may be a mapped
// file, and b must not change. The first change of the filter copies the blocks. The
// filter has no hash function yet: see SetHash. The errors are those of UnmarshalBinary.
func Open(b []byte) (*Filter, error) {
	if len(b) < headerLen {
		return nil, readError(io.EOF, int64(len(b)))
	}
	f, blocks, err := parseHeader(b[:headerLen])
	if err != nil {
		return nil, err
	}
	if rest := uint64(len(b) - headerLen); rest != blocks*blockBytes {
		return nil, damage("%d blocks in %d bytes", blocks, rest)
	}
	f.blocks, f.shared = b[headerLen:len(b):len(b)], true
	return f, nil
}

// parseHeader returns a filter without blocks, and how many it has.
func parseHeader(b []byte) (f *Filter, blocks uint64, err error) {
	if string(b[:len(magic)]) != magic {
		return nil, 0, damage("it begins with %q, not with %q", b[:len(magic)], magic)
	}
	if version := binary.LittleEndian.Uint32(b[8:]); version != 0 {
		return nil, 0, fmt.Errorf("blobloom: read filter: %w: version %d, this package reads version 0", bloom.ErrUnknown, version)
	}
	blocks = uint64(binary.LittleEndian.Uint32(b[12:])) + 1
	f = &Filter{hashes: binary.LittleEndian.Uint32(b[16:])}
	note := bytes.TrimRight(b[noteAt:], "\x00")
	switch {
	case f.hashes == 0 || f.hashes > maxHashes:
		return nil, 0, damage("%d hashes", f.hashes)
	case blocks > math.MaxInt/blockBytes:
		return nil, 0, damage("%d blocks do not fit into memory", blocks)
	case bytes.IndexByte(note, 0) >= 0:
		return nil, 0, damage("a zero inside the comment %q", note)
	}
	f.note = string(note)
	return f, blocks, nil
}

// header returns the encoded header.
func (f *Filter) header() (b [headerLen]byte) {
	copy(b[:], magic)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(f.blocks)/blockBytes-1))
	binary.LittleEndian.PutUint32(b[16:], f.hashes)
	copy(b[noteAt:], f.note)
	return b
}

// AppendBinary appends the bytes that the peer's Dump writes. For the zero value it returns
// ErrParameters and dst as it was.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.blocks) == 0 {
		return dst, errNoBlocks()
	}
	head := f.header()
	return append(append(slices.Grow(dst, headerLen+len(f.blocks)), head[:]...), f.blocks...), nil
}

// MarshalBinary returns the bytes of the peer's Dump: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter as the peer's Dump does. The error is that of w, or
// ErrParameters for the zero value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.blocks) == 0 {
		return 0, errNoBlocks()
	}
	head := f.header()
	for _, b := range [][]byte{head[:], f.blocks} {
		m, err := w.Write(b)
		if n += int64(m); err != nil {
			return n, fmt.Errorf("blobloom: write filter: %w", err)
		}
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
// b, and keeps the hash function. The error is bloom.ErrUnknown for a version to come, and
// otherwise bloom.ErrDamaged. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	made, err := Open(b)
	if err != nil {
		return err
	}
	made.own()
	f.replace(made)
	return nil
}

// ReadFrom replaces the filter by the next one in r, and reads no further than its end. It
// keeps the hash function. After an error the filter is as it was.
//
// It never holds more than twice the memory of what it has read. If r ends too early, the
// error wraps bloom.ErrDamaged, and io.ErrUnexpectedEOF, or io.EOF if r was empty. Other
// errors of r are wrapped too.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) {
	var head [headerLen]byte
	m, err := io.ReadFull(r, head[:])
	if n = int64(m); err != nil {
		return n, readError(err, n)
	}
	made, blocks, err := parseHeader(head[:])
	if err != nil {
		return n, err
	}
	made.blocks, err = pieces.Read(r, blocks*blockBytes)
	if n += int64(len(made.blocks)); err != nil {
		return n, readError(err, n)
	}
	f.replace(made)
	return n, nil
}

// replace makes f what made is, with the hash function that f has.
func (f *Filter) replace(made *Filter) {
	made.hash = f.hash
	*f = *made
}

// readError makes the error of ReadFrom from the error err of the reader, which
// came after n bytes.
func readError(err error, n int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("blobloom: read filter: %w: it ends after %d bytes: %w", bloom.ErrDamaged, n, err)
	}
	return fmt.Errorf("blobloom: read filter: %w", err)
}

func damage(format string, args ...any) error {
	return fmt.Errorf("blobloom: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

func errNoBlocks() error {
	return fmt.Errorf("blobloom: write filter: %w: no bits, make the filter with NewFilter or read one", ErrParameters)
}

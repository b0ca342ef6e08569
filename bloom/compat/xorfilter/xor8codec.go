package xorfilter

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom/compat/internal/pieces"
)

const xorHeaderLen = 16

// OpenXor8 returns the filter that b is, all of b. It does not copy b, which may be a mapped
// file, and b must not change. The filter has no hash function yet: see SetHash. The error
// is bloom.ErrDamaged.
func OpenXor8(b []byte) (*Xor8, error) {
	if len(b) < xorHeaderLen {
		return nil, readError(io.EOF, int64(len(b)))
	}
	seed, size, err := parseXor8(b)
	if err != nil {
		return nil, err
	}
	if rest := uint64(len(b) - xorHeaderLen); rest != size {
		return nil, damage("%d fingerprints in %d bytes", size, rest)
	}
	return &Xor8{seed: seed, bytes: b[xorHeaderLen:len(b):len(b)]}, nil
}

// parseXor8 returns the seed and the number of fingerprints.
func parseXor8(header []byte) (seed, size uint64, err error) {
	block := binary.LittleEndian.Uint64(header[8:])
	if block == 0 || block > math.MaxUint32 || 3*block > math.MaxInt-xorHeaderLen {
		return 0, 0, damage("three blocks of %d fingerprints", block)
	}
	return binary.LittleEndian.Uint64(header), 3 * block, nil
}

func (f *Xor8) header() (b [xorHeaderLen]byte) {
	binary.LittleEndian.PutUint64(b[:], f.seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(len(f.bytes)/3))
	return b
}

// AppendBinary appends the bytes that xor8_serialize of xor_singleheader writes on a
// little-endian machine. For the zero value it returns ErrParameters and dst as it was.
func (f *Xor8) AppendBinary(dst []byte) ([]byte, error) {
	if len(f.bytes) == 0 {
		return dst, errEmpty()
	}
	head := f.header()
	return append(append(slices.Grow(dst, xorHeaderLen+len(f.bytes)), head[:]...), f.bytes...), nil
}

// MarshalBinary returns the bytes that AppendBinary appends.
func (f *Xor8) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes what AppendBinary appends. The error is that of w, or ErrParameters for the
// zero value.
func (f *Xor8) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.bytes) == 0 {
		return 0, errEmpty()
	}
	head := f.header()
	return writeTo(w, head[:], f.bytes)
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form. For the peer's JSON see Xor8Fields.
func (f Xor8) MarshalText() ([]byte, error) { return appendText(f.AppendBinary(nil)) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Xor8) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damage("%v", err)
	}
	return f.UnmarshalBinary(b)
}

// UnmarshalBinary replaces the filter by the one that b is, all of b. It keeps nothing of b,
// and keeps the hash function. The error is bloom.ErrDamaged. After an error the filter is
// as it was.
func (f *Xor8) UnmarshalBinary(b []byte) error {
	made, err := OpenXor8(b)
	if err == nil {
		f.seed, f.bytes = made.seed, slices.Clone(made.bytes)
	}
	return err
}

// ReadFrom replaces the filter by the next one in r, and reads no further than its end. It
// keeps the hash function. After an error the filter is as it was. Memory and errors are
// those of Fuse.ReadFrom.
func (f *Xor8) ReadFrom(r io.Reader) (n int64, err error) {
	var head [xorHeaderLen]byte
	m, err := io.ReadFull(r, head[:])
	if n = int64(m); err != nil {
		return n, readError(err, n)
	}
	seed, size, err := parseXor8(head[:])
	if err != nil {
		return n, err
	}
	b, err := pieces.Read(r, size)
	if n += int64(len(b)); err != nil {
		return n, readError(err, n)
	}
	f.seed, f.bytes = seed, b
	return n, nil
}

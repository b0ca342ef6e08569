package holiman

import (
	"bytes"
	"crypto/sha512"
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

// The plain form: see the package comment.
const (
	magic     = "\x00\x00\x00\x00\x00\x00\x00\x00" + version
	version   = "v02\n"
	headerLen = len(magic) + 3*8
	sumLen    = sha512.Size384
)

// Open returns the filter whose plain form is b, all of b. It computes the checksum of b,
// but does not copy it. b may be a mapped file, and must not change. The first change of the
// filter copies the bits. The filter has no hash function yet: see SetHash. The errors are
// those of UnmarshalBinary.
func Open(b []byte) (*Filter, error) {
	if len(b) < headerLen {
		return nil, readError(io.EOF, int64(len(b)))
	}
	f, k, err := parseHeader(b[:headerLen])
	if err != nil {
		return nil, err
	}
	at := headerLen + 8*k
	if want := 8 * wordsOf(f.m); len(b) < at+sumLen || uint64(len(b)-at-sumLen) != want {
		return nil, damage("%d seeds and %d bits in %d bytes", k, f.m, len(b))
	}
	end := len(b) - sumLen
	f.seeds = wordsIn(b[headerLen:at])
	f.bits, f.shared = b[at:end:end], true
	if sha512.Sum384(b[:end]) != [sumLen]byte(b[end:]) {
		return nil, damage("the checksum does not match")
	}
	if err := f.checkTail(); err != nil {
		return nil, err
	}
	return f, nil
}

// parseHeader returns a filter without seeds and bits, and how many seeds it has.
func parseHeader(b []byte) (f *Filter, k int, err error) {
	if v := string(b[8:len(magic)]); string(b[:8]) == magic[:8] && v != version && v[0] == 'v' {
		return nil, 0, fmt.Errorf("holiman: read filter: %w: version %q, this package reads %q", bloom.ErrUnknown, v, version)
	}
	if string(b[:len(magic)]) != magic {
		return nil, 0, damage("it begins with %q, not with %q", b[:len(magic)], magic)
	}
	words := wordsIn(b[len(magic):])
	return checkNumbers(words[0], words[1], words[2])
}

// checkNumbers returns a filter of these numbers if there can be one.
func checkNumbers(probes, n, m uint64) (f *Filter, k int, err error) {
	switch {
	case probes == 0 || probes > maxProbes:
		return nil, 0, damage("%d probes", probes)
	case m < minBits || wordsOf(m) > (math.MaxInt-maxProbes*8)/8:
		return nil, 0, damage("%d bits", m)
	}
	return &Filter{m: m, n: n}, int(probes), nil
}

// checkTail returns an error if bits are set behind the last one.
func (f *Filter) checkTail() error {
	if used := f.m & 63; used != 0 && binary.LittleEndian.Uint64(f.bits[len(f.bits)-8:])>>used != 0 {
		return damage("bits behind the last of %d", f.m)
	}
	return nil
}

// appendHead appends what comes before the bits.
func (f *Filter) appendHead(dst []byte) []byte {
	dst = append(dst, magic...)
	for _, v := range []uint64{uint64(len(f.seeds)), f.n, f.m} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, v := range f.seeds {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// AppendBinary appends the plain form. For the zero value it returns ErrParameters and dst
// as it was.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if f.m == 0 {
		return dst, errNoBits("write filter")
	}
	start := len(dst)
	dst = slices.Grow(dst, headerLen+8*len(f.seeds)+len(f.bits)+sumLen)
	dst = append(f.appendHead(dst), f.bits...)
	sum := sha512.Sum384(dst[start:])
	return append(dst, sum[:]...), nil
}

// MarshalBinary returns the plain form, that of the peer's MarshalBinary: see AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// GobEncode returns the plain form. With it gob writes what it writes of the peer's Filter.
func (f *Filter) GobEncode() ([]byte, error) { return f.MarshalBinary() }

// GobDecode is UnmarshalBinary, for gob.
func (f *Filter) GobDecode(b []byte) error { return f.UnmarshalBinary(b) }

// MarshalText returns the bytes of MarshalBinary in base64. encoding/xml writes a filter in
// this form; encoding/json uses MarshalJSON.
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

// UnmarshalBinary replaces the filter by the one whose plain form is b, all of b. It keeps
// nothing of b, and keeps the hash function. The error is bloom.ErrUnknown for another
// version, and otherwise bloom.ErrDamaged. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	made, err := Open(b)
	if err != nil {
		return err
	}
	made.own()
	f.replace(made)
	return nil
}

// readPlain returns the next filter in r, whose plain form has at most limit bytes.
func readPlain(r io.Reader, limit uint64) (*Filter, error) {
	sum := sha512.New384()
	n := int64(0)
	read := func(size uint64) ([]byte, error) {
		b, err := pieces.Read(r, size)
		if n += int64(len(b)); err != nil {
			return nil, readError(err, n)
		}
		sum.Write(b)
		return b, nil
	}
	head, err := read(uint64(headerLen))
	if err != nil {
		return nil, err
	}
	f, k, err := parseHeader(head)
	if err != nil {
		return nil, err
	}
	if size := uint64(headerLen+8*k+sumLen) + 8*wordsOf(f.m); size > limit {
		return nil, fmt.Errorf("holiman: read filter: %w: %d bytes, %d are allowed", ErrTooLarge, size, limit)
	}
	seeds, err := read(uint64(8 * k))
	if err != nil {
		return nil, err
	}
	f.seeds = wordsIn(seeds)
	if f.bits, err = read(8 * wordsOf(f.m)); err != nil {
		return nil, err
	}
	want := sum.Sum(nil)
	got, err := read(uint64(sumLen))
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(got, want) {
		return nil, damage("the checksum does not match")
	}
	if err := f.checkTail(); err != nil {
		return nil, err
	}
	return f, nil
}

// replace makes f what made is, with the hash function that f has.
func (f *Filter) replace(made *Filter) {
	made.hash = f.hash
	*f = *made
}

// readError makes the error of a read from the error err of the reader, which
// came after n bytes.
func readError(err error, n int64) error {
	if errors.Is(err, bloom.ErrDamaged) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("holiman: read filter: %w: it ends after %d bytes: %w", bloom.ErrDamaged, n, err)
	}
	return fmt.Errorf("holiman: read filter: %w", err)
}

func damage(format string, args ...any) error {
	return fmt.Errorf("holiman: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

func errNoBits(what string) error {
	return fmt.Errorf("holiman: %s: %w: no bits, make the filter with NewFilter or read one", what, ErrParameters)
}

package holiman

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrTooLarge says that a filter is larger than the limit that the caller set.
var ErrTooLarge = errors.New("the filter is too large")

// gzipMagic is the first byte of a gzip stream. The plain form begins with another one.
const gzipMagic = 0x1f

// WriteTo writes the filter as the peer's WriteTo and WriteFile do: its plain form in gzip.
// n counts the bytes that w took. The error is that of w, or ErrParameters for the zero
// value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if f.m == 0 {
		return 0, errNoBits("write filter")
	}
	out := &countingWriter{w: w}
	packed := gzip.NewWriter(out)
	sum := sha512.New384()
	for _, b := range [][]byte{f.appendHead(nil), f.bits} {
		sum.Write(b)
		if _, err := packed.Write(b); err != nil {
			return out.n, fmt.Errorf("holiman: write filter: %w", err)
		}
	}
	if _, err := packed.Write(sum.Sum(nil)); err != nil {
		return out.n, fmt.Errorf("holiman: write filter: %w", err)
	}
	if err := packed.Close(); err != nil {
		return out.n, fmt.Errorf("holiman: write filter: %w", err)
	}
	return out.n, nil
}

// ReadFrom replaces the filter by the next one in r, in gzip or in the plain form. It keeps
// the hash function. After an error the filter is as it was. n counts the bytes that it took
// from r.
//
// It reads no further than the end of the filter, except for a gzip stream in an r that is
// not an io.ByteReader: then, like compress/gzip, it may read on. If something follows in
// the stream, give it a bufio.Reader.
//
// It never holds more than twice the memory of the plain form that it has read. If r ends
// too early, the error wraps bloom.ErrDamaged, and io.ErrUnexpectedEOF, or io.EOF if r was
// empty. Other errors of r are wrapped too.
func (f *Filter) ReadFrom(r io.Reader) (n int64, err error) { return f.ReadMax(r, math.MaxUint64) }

// ReadMax is ReadFrom for streams from strangers. If the plain form of the filter has more
// than limit bytes, it returns ErrTooLarge, and has read only its beginning.
func (f *Filter) ReadMax(r io.Reader, limit uint64) (n int64, err error) {
	in := &source{r: r}
	in.bytes, _ = r.(io.ByteReader)
	var made *Filter
	switch first, err := in.peek(); {
	case err != nil:
		return in.n, readError(err, in.n)
	case first != gzipMagic:
		made, err = readPlain(in, limit)
		if err != nil {
			return in.n, err
		}
	default:
		if made, err = readGzip(in.flateReader(), limit); err != nil {
			return in.n, err
		}
	}
	f.replace(made)
	return in.n, nil
}

// readGzip returns the filter that is all of the next gzip stream in r.
func readGzip(r flate.Reader, limit uint64) (*Filter, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, readError(gzipError(err), 1)
	}
	unpacked.Multistream(false)
	f, err := readPlain(&gzipErrors{unpacked}, limit)
	if err != nil {
		return nil, err
	}
	// The end of the gzip stream has a checksum too, which is looked at only there.
	var more [1]byte
	switch n, err := io.ReadFull(unpacked, more[:]); {
	case n > 0:
		return nil, damage("the gzip stream does not end behind it")
	case !errors.Is(err, io.EOF):
		return nil, readError(gzipError(err), 1)
	}
	return f, nil
}

// gzipErrors makes damage of the errors that say so of a gzip stream. Its end is always too
// early, because what is read there ends before.
type gzipErrors struct{ r io.Reader }

func (g *gzipErrors) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if errors.Is(err, io.EOF) && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, gzipError(err)
}

func gzipError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return damage("%v", err)
	}
	return err
}

// A source counts what is read from r, and lets a reader look at its first byte.
type source struct {
	r      io.Reader
	bytes  io.ByteReader // r, if it is one
	n      int64
	first  byte
	peeked bool
}

func (s *source) peek() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(s, b[:])
	s.first, s.peeked = b[0], err == nil
	return b[0], err
}

func (s *source) Read(p []byte) (int, error) {
	if s.peeked && len(p) > 0 {
		p[0], s.peeked = s.first, false
		return 1, nil
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	return n, err
}

// flateReader returns s as what the decompressor reads without reading on, if there is
// such a thing.
func (s *source) flateReader() flate.Reader {
	if s.bytes == nil {
		return bufio.NewReader(s)
	}
	return byteSource{s}
}

// A byteSource is a source with an io.ByteReader below.
type byteSource struct{ *source }

func (s byteSource) ReadByte() (byte, error) {
	if s.peeked {
		s.peeked = false
		return s.first, nil
	}
	b, err := s.bytes.ReadByte()
	if err == nil {
		s.n++
	}
	return b, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

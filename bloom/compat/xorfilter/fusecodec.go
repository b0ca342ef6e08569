package xorfilter

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/shaledb/shale/bloom/compat/internal/pieces"
)

// A form is which library's header a Fuse has: see the package comment.
type form byte

const (
	formGo form = iota
	formC
)

const headerLen = 28

// spareLen is how many bytes more than it writes xor_singleheader says that a filter with 16
// bits has. So most such files end with bytes that mean nothing.
const spareLen = 4

// A fuseHeader is the header of a Fuse: the seed and five words.
type fuseHeader struct {
	seed  uint64
	words [5]uint32
}

func parseHeader(b []byte) (h fuseHeader) {
	h.seed = binary.LittleEndian.Uint64(b)
	for i := range h.words {
		h.words[i] = binary.LittleEndian.Uint32(b[8+4*i:])
	}
	return h
}

// newFuse returns a filter without fingerprints. MayContainHash relies on what is checked
// here, and on size bytes of fingerprints: then all places that a key can have are there.
func newFuse[T Unsigned](h fuseHeader) (*Fuse[T], error) {
	f := &Fuse[T]{seed: h.seed, count: h.words[2]}
	places, all := h.words[3], h.words[4]
	// In both forms the length of a segment follows from the last three words.
	if f.count != 0 {
		f.length = places / f.count
	}
	switch h.words[1] {
	case f.length - 1:
		if h.words[0] != f.length {
			return nil, damage("segments of %d and %d places", h.words[0], f.length)
		}
	case f.length:
		f.form, f.keys = formC, h.words[0]
	default:
		return nil, damage("segments of %d places, but the third word is %d: perhaps it is of a big-endian machine, or no filter", f.length, h.words[1])
	}
	switch l := uint64(f.length); {
	case bits.OnesCount64(l) != 1 || l > maxSegment:
		return nil, damage("segments of %d places", l)
	case uint64(f.count)*l != uint64(places) || (uint64(f.count)+2)*l != uint64(all):
		return nil, damage("%d + 2 segments of %d places, but %d places and %d fingerprints", f.count, l, places, all)
	case f.size() > math.MaxInt-headerLen:
		return nil, damage("%d fingerprints do not fit into memory", all)
	}
	return f, nil
}

// size returns how many bytes the fingerprints have.
func (f *Fuse[T]) size() uint64 { return (uint64(f.count) + 2) * uint64(f.length) * uint64(f.width()) }

// OpenFuse returns the filter that b is, all of b, in the form of either library. It does
// not copy b, which may be a mapped file, and b must not change. The filter has no hash
// function yet: see SetHash. The error is bloom.ErrDamaged.
//
// Behind a filter with 16 bits of xor_singleheader there may be the 4 spare bytes of which
// the package comment tells. They are not written again.
func OpenFuse[T Unsigned](b []byte) (*Fuse[T], error) {
	if len(b) < headerLen {
		return nil, readError(io.EOF, int64(len(b)))
	}
	f, err := newFuse[T](parseHeader(b))
	if err != nil {
		return nil, err
	}
	rest := uint64(len(b) - headerLen)
	if f.form == formC && f.width() == 2 && rest == f.size()+spareLen {
		rest, b = f.size(), b[:len(b)-spareLen]
	}
	if rest != f.size() {
		return nil, damage("%d fingerprints of %d bits in %d bytes", f.size()/uint64(f.width()), f.Bits(), rest)
	}
	f.bytes = b[headerLen:len(b):len(b)]
	return f, nil
}

// header returns the header in one of the forms.
func (f *Fuse[T]) header(form form) (b [headerLen]byte) {
	words := [5]uint32{f.length, f.length - 1, f.count, f.count * f.length, (f.count + 2) * f.length}
	if form == formC {
		words[0], words[1] = f.keys, f.length
	}
	binary.LittleEndian.PutUint64(b[:], f.seed)
	for i, w := range words {
		binary.LittleEndian.PutUint32(b[8+4*i:], w)
	}
	return b
}

// appendForm appends the filter in one of the forms.
func (f *Fuse[T]) appendForm(dst []byte, form form) ([]byte, error) {
	if len(f.bytes) == 0 {
		return dst, errEmpty()
	}
	head := f.header(form)
	return append(append(slices.Grow(dst, headerLen+len(f.bytes)), head[:]...), f.bytes...), nil
}

// AppendGo appends the bytes that the peer's Save writes. For the zero value it returns
// ErrParameters and dst as it was.
func (f *Fuse[T]) AppendGo(dst []byte) ([]byte, error) { return f.appendForm(dst, formGo) }

// AppendC appends the bytes that binary_fuse8_serialize or binary_fuse16_serialize of
// xor_singleheader writes on a little-endian machine. keys is the number of keys for the
// header, or 0 for Count. xor_singleheader has no fingerprints of 32 bits: for them, as for
// the zero value, AppendC returns ErrParameters and dst as it was.
func (f *Fuse[T]) AppendC(dst []byte, keys uint32) ([]byte, error) {
	if f.Bits() == 32 {
		return dst, fmt.Errorf("xorfilter: write filter: %w: xor_singleheader has no fingerprints of 32 bits", ErrParameters)
	}
	c := *f
	if keys != 0 {
		c.keys = keys
	}
	return c.appendForm(dst, formC)
}

// AppendBinary appends the filter in the form in which it was read; a filter that was built
// has the form of the peer. For the zero value it returns ErrParameters and dst as it was.
func (f *Fuse[T]) AppendBinary(dst []byte) ([]byte, error) { return f.appendForm(dst, f.form) }

// MarshalBinary returns the filter in the form in which it was read: see AppendBinary.
func (f *Fuse[T]) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes what AppendBinary appends. The error is that of w, or ErrParameters for the
// zero value.
func (f *Fuse[T]) WriteTo(w io.Writer) (n int64, err error) {
	if len(f.bytes) == 0 {
		return 0, errEmpty()
	}
	head := f.header(f.form)
	return writeTo(w, head[:], f.bytes)
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/json and encoding/xml
// write a filter in this form. For the peer's JSON see FuseFields.
func (f Fuse[T]) MarshalText() ([]byte, error) { return appendText(f.AppendBinary(nil)) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Fuse[T]) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return damage("%v", err)
	}
	return f.UnmarshalBinary(b)
}

// UnmarshalBinary replaces the filter by the one that b is, all of b, in the form of either
// library. It keeps nothing of b, and keeps the hash function. The error is
// bloom.ErrDamaged. After an error the filter is as it was.
func (f *Fuse[T]) UnmarshalBinary(b []byte) error {
	made, err := OpenFuse[T](b)
	if err != nil {
		return err
	}
	made.bytes = slices.Clone(made.bytes)
	f.replace(made)
	return nil
}

// ReadFrom replaces the filter by the next one in r, in the form of either library, and
// reads no further than its end. It keeps the hash function. After an error the filter is as
// it was.
//
// It never holds more than twice the memory of what it has read. If r ends too early, the
// error wraps bloom.ErrDamaged, and io.ErrUnexpectedEOF, or io.EOF if r was empty. Other
// errors of r are wrapped too.
func (f *Fuse[T]) ReadFrom(r io.Reader) (n int64, err error) {
	var head [headerLen]byte
	m, err := io.ReadFull(r, head[:])
	if n = int64(m); err != nil {
		return n, readError(err, n)
	}
	made, err := newFuse[T](parseHeader(head[:]))
	if err != nil {
		return n, err
	}
	made.bytes, err = pieces.Read(r, made.size())
	if n += int64(len(made.bytes)); err != nil {
		return n, readError(err, n)
	}
	f.replace(made)
	return n, nil
}

// replace makes f what made is, with the hash function that f has.
func (f *Fuse[T]) replace(made *Fuse[T]) {
	made.hash = f.hash
	*f = *made
}

package bitsandblooms

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// The header of the format, big-endian:
//
//	 0 8 16         24
//	|m|k|length = m|ceil(length/64) words
const headerLen = 24

// AppendBinary appends the bytes that the peer's WriteTo writes. For the zero value it
// returns [ErrParameters] and dst as it was.
func (f *Filter) AppendBinary(dst []byte) ([]byte, error) {
	if f.m == 0 {
		return dst, errNoBits("write filter")
	}
	dst = slices.Grow(dst, headerLen+8*len(f.words))
	for _, v := range []uint64{f.m, f.k} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return f.appendBits(dst), nil
}

// appendBits appends the bitset: its length and its words.
func (f *Filter) appendBits(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, f.length)
	for _, w := range f.words {
		dst = binary.BigEndian.AppendUint64(dst, w)
	}
	return dst
}

// MarshalBinary returns the bytes of the peer's MarshalBinary and GobEncode: see
// AppendBinary.
func (f *Filter) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// WriteTo writes the filter as the peer's WriteTo does. The error is that of w, or
// [ErrParameters] for the zero value.
func (f *Filter) WriteTo(w io.Writer) (n int64, err error) {
	if f.m == 0 {
		return 0, errNoBits("write filter")
	}
	var head []byte
	for _, v := range []uint64{f.m, f.k, f.length} {
		head = binary.BigEndian.AppendUint64(head, v)
	}
	n, err = form.WriteItems(w, head, f.words, binary.BigEndian.AppendUint64)
	if err != nil {
		return n, fmt.Errorf("bitsandblooms: write filter: %w", err)
	}
	return n, nil
}

// UnmarshalBinary replaces the filter by the one that b is, all of b. It keeps nothing of
// b. After an error the filter is as it was.
func (f *Filter) UnmarshalBinary(b []byte) error {
	made, err := decode(b)
	if err == nil {
		*f = *made
	}
	return err
}

// decode returns the filter that b is, all of b.
func decode(b []byte) (*Filter, error) {
	if len(b) >= headerLen {
		// The length is checked before anything is allocated.
		length := binary.BigEndian.Uint64(b[16:])
		if rest := uint64(len(b) - headerLen); rest%8 != 0 || wordsOf(length) != rest/8 {
			return nil, damage("a bitset of %d bits in %d bytes", length, rest)
		}
	}
	var made Filter
	_, err := made.ReadFrom(bytes.NewReader(b))
	return &made, err
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
		return n, form.ReadError("bitsandblooms", err, n)
	}
	made := Filter{m: binary.BigEndian.Uint64(head[:]), k: binary.BigEndian.Uint64(head[8:]), length: binary.BigEndian.Uint64(head[16:])}
	if err := made.check(); err != nil {
		return n, err
	}
	words, read, err := form.ReadItems(r, int(wordsOf(made.length)), 8, binary.BigEndian.Uint64)
	if n += read; err != nil {
		return n, form.ReadError("bitsandblooms", err, n)
	}
	made.words = words
	if last := made.length & 63; last != 0 && made.words[len(made.words)-1]>>last != 0 {
		return n, damage("bits behind the last of %d", made.length)
	}
	*f = made
	return n, nil
}

// check returns an error for headers that no filter has.
func (f *Filter) check() error {
	switch {
	case f.m == 0 || f.k == 0 || f.k > maxProbes:
		return damage("%d bits, %d probes", f.m, f.k)
	case f.length < f.m:
		return damage("%d bits, but a bitset of %d", f.m, f.length)
	case wordsOf(f.length) > math.MaxInt/8:
		return damage("a bitset of %d bits", f.length)
	}
	return nil
}

// wordsOf returns how many words a bitset of length bits has.
func wordsOf(length uint64) uint64 {
	n := length / 64
	if length%64 != 0 {
		n++
	}
	return n
}

// MarshalText returns the bytes of MarshalBinary in base64. encoding/xml writes a filter in
// this form; encoding/json uses MarshalJSON.
func (f Filter) MarshalText() ([]byte, error) { return form.Text(f.MarshalBinary()) }

// UnmarshalText replaces the filter by the one that MarshalText wrote as text. After an
// error the filter is as it was.
func (f *Filter) UnmarshalText(text []byte) error { return form.UnmarshalText(text, f.UnmarshalBinary) }

// inJSON is the JSON form of a filter, with the field names of the peer.
type inJSON struct {
	M uint64 `json:"m"`
	K uint64 `json:"k"`
	B string `json:"b"`
}

// MarshalJSON returns the filter in the form of the peer's MarshalJSON.
func (f Filter) MarshalJSON() ([]byte, error) {
	if f.m == 0 {
		return nil, errNoBits("marshal filter")
	}
	bits := f.appendBits(make([]byte, 0, 8+8*len(f.words)))
	return json.Marshal(inJSON{f.m, f.k, base64.URLEncoding.EncodeToString(bits)})
}

// UnmarshalJSON replaces the filter by the one that b is. After an error the
// filter is as it was.
func (f *Filter) UnmarshalJSON(b []byte) error {
	var j inJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("bitsandblooms: read filter: %w: %w", bloom.ErrDamaged, err)
	}
	whole := binary.BigEndian.AppendUint64(make([]byte, 0, 16+base64.URLEncoding.DecodedLen(len(j.B))), j.M)
	whole = binary.BigEndian.AppendUint64(whole, j.K)
	whole, err := base64.URLEncoding.AppendDecode(whole, []byte(j.B))
	if err != nil {
		return fmt.Errorf("bitsandblooms: read filter: %w: %w", bloom.ErrDamaged, err)
	}
	return f.UnmarshalBinary(whole)
}

func damage(format string, args ...any) error {
	return fmt.Errorf("bitsandblooms: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

func errNoBits(what string) error {
	return fmt.Errorf("bitsandblooms: %s: %w: no bits", what, ErrParameters)
}

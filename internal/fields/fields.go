// Package fields encodes and decodes what the edits of a manifest and the objects of a bucket consist of: fields, one
// after the other. A field is a tag, the length of its content, and the content; tag and length are varints.
//
// A reader refuses a field with an even tag that it does not know, and skips one with an odd tag. So a field that a
// reader may ignore has an odd tag.
package fields

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/internal/base"
)

// What may be wrong with fields.
var (
	ErrShort    = errors.New("it ends within a field")
	ErrTrailing = errors.New("the field is longer than its content")
	ErrRepeated = errors.New("the field stands twice")
)

// Append appends a field. The compiler does not inline it or the other two: copies for all fields of an edit would make a
// program 8 KB larger.
//
//go:noinline
func Append(dst []byte, tag uint64, content []byte) []byte {
	return append(AppendUvarints(dst, tag, uint64(len(content))), content...)
}

// AppendNumber appends a field with the number v. It appends nothing for 0.
//
//go:noinline
func AppendNumber(dst []byte, tag, v uint64) []byte {
	if v == 0 {
		return dst
	}
	var buf [binary.MaxVarintLen64]byte
	return Append(dst, tag, buf[:binary.PutUvarint(buf[:], v)])
}

// AppendUvarints appends varints.
//
//go:noinline
func AppendUvarints(dst []byte, values ...uint64) []byte {
	for _, v := range values {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// Decode calls fn for each field of src. fn decodes the content, all of it, and reports whether it knows the tag. A field
// that it knows may stand there again only if lists says so. An unknown field with an even tag is an error that wraps
// base.ErrFormatTooNew.
func Decode(src []byte, lists func(tag uint64) bool, fn func(tag uint64, d *Decoder) (known bool)) error {
	seen := uint64(0) // bit t is set if there was a field of tag t
	for len(src) > 0 {
		d := Decoder{Src: src}
		tag := d.Uvarint()
		content := Decoder{Src: d.Next(d.Uvarint())}
		if d.Err != nil {
			return d.Err
		}
		src = d.Src // d has cut the field off
		known := fn(tag, &content)
		switch {
		case !known && tag%2 == 0:
			return fmt.Errorf("field %d is unknown: %w", tag, base.ErrFormatTooNew)
		case !known:
			continue
		case content.Err != nil:
			return fmt.Errorf("field %d: %w", tag, content.Err)
		case len(content.Src) > 0:
			return fmt.Errorf("field %d: %w", tag, ErrTrailing)
		case seen&(1<<tag) != 0 && !lists(tag):
			return fmt.Errorf("field %d: %w", tag, ErrRepeated)
		}
		seen |= 1 << tag
	}
	return nil
}

// A Decoder decodes values from the front of Src and cuts them off. Its first error stays, and every later value is zero.
// So callers check Err once, at the end.
type Decoder struct {
	Src []byte
	Err error
}

// Fail sets the first error, and empties Src. Like Append it is not inlined.
//
//go:noinline
func (d *Decoder) Fail(err error) {
	if d.Err == nil {
		d.Err = err
	}
	d.Src = nil
}

// Next returns the next n bytes, which are a part of Src.
func (d *Decoder) Next(n uint64) []byte {
	if n > uint64(len(d.Src)) {
		d.Fail(ErrShort)
		return nil
	}
	b := d.Src[:n]
	d.Src = d.Src[n:]
	return b
}

// Rest returns all bytes that are left, which are a part of Src.
func (d *Decoder) Rest() []byte { return d.Next(uint64(len(d.Src))) }

// Uvarint decodes a varint.
func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.Src)
	if n <= 0 {
		d.Fail(ErrShort)
		return 0
	}
	d.Src = d.Src[n:]
	return v
}

// Uint32 decodes 4 bytes, little-endian.
func (d *Decoder) Uint32() uint32 {
	if b := d.Next(4); len(b) == 4 {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 decodes 8 bytes, little-endian.
func (d *Decoder) Uint64() uint64 {
	if b := d.Next(8); len(b) == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Int64 decodes a varint that must fit into an int64: a length or an offset.
func (d *Decoder) Int64() int64 { return d.Signed(d.Uvarint()) }

// Signed returns v, which must fit into an int64.
func (d *Decoder) Signed(v uint64) int64 {
	if v > math.MaxInt64 {
		d.Fail(fmt.Errorf("%d is too large", v))
		return 0
	}
	return int64(v)
}

package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/shaledb/shale/internal/base"
)

// Steps, states and pins consist of fields: a tag and a length as varints, and the content. A
// reader refuses an object with an even tag that it does not know, and skips odd ones. These are
// part of the format; they never change.
const (
	tagKind         = 2  // of steps
	tagEdit         = 4  // of steps
	tagExtent       = 6  // of steps and states, repeated
	tagFloor        = 8  // of steps and states
	tagLastTableSeq = 10 // of steps
	tagLabel        = 14 // of pins
	tagTables       = 16 // of states
	tagExpires      = 18 // of pins
	tagOwner        = 19 // of pins; odd: it is for people only
	tagPinned       = 20 // of pins
)

var (
	errShort    = errors.New("it ends within a field")
	errTrailing = errors.New("the field is longer than its content")
	errRepeated = errors.New("the field stands twice")
)

// appendField appends a field.
func appendField(dst []byte, tag uint64, content []byte) []byte {
	return append(appendUvarints(dst, tag, uint64(len(content))), content...)
}

// appendNumber appends a field with the number v. It appends nothing for 0.
func appendNumber(dst []byte, tag, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return appendField(dst, tag, binary.AppendUvarint(nil, v))
}

// appendUvarints appends varints.
func appendUvarints(dst []byte, values ...uint64) []byte {
	for _, v := range values {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// decodeFields calls fn for each field of src. fn decodes the content and reports whether it knows
// the tag. Extents may be repeated, the others may not.
func decodeFields(src []byte, fn func(tag uint64, d *decoder) (known bool)) error {
	seen := uint64(0) // bit t is set if there was a field of tag t
	for len(src) > 0 {
		d := decoder{src: src}
		tag := d.uvarint()
		content := decoder{src: d.next(d.uvarint())}
		if d.err != nil {
			return d.err
		}
		src = d.src
		known := fn(tag, &content)
		switch {
		case !known && tag%2 == 0:
			return fmt.Errorf("field %d is unknown: %w", tag, base.ErrFormatTooNew)
		case !known:
			continue
		case content.err != nil:
			return fmt.Errorf("field %d: %w", tag, content.err)
		case len(content.src) > 0:
			return fmt.Errorf("field %d: %w", tag, errTrailing)
		case seen&(1<<tag) != 0 && tag != tagExtent:
			return fmt.Errorf("field %d: %w", tag, errRepeated)
		}
		seen |= 1 << tag
	}
	return nil
}

// A decoder decodes values from the front of src and cuts them off. Its first error stays, and
// every later value is zero. So callers check err once, at the end.
type decoder struct {
	src []byte
	err error
}

// fail sets the first error, and empties src.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.src = nil
}

// next returns the next n bytes, which are a part of src.
func (d *decoder) next(n uint64) []byte {
	if n > uint64(len(d.src)) {
		d.fail(errShort)
		return nil
	}
	b := d.src[:n]
	d.src = d.src[n:]
	return b
}

// rest returns all bytes that are left, which are a part of src.
func (d *decoder) rest() []byte { return d.next(uint64(len(d.src))) }

// uvarint decodes a varint.
func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.src)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.src = d.src[n:]
	return v
}

// uint64 decodes 8 bytes, little-endian.
func (d *decoder) uint64() uint64 {
	if b := d.next(8); len(b) == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// int64 decodes a varint that must fit into an int64: a length or an offset.
func (d *decoder) int64() int64 { return d.signed(d.uvarint()) }

// signed returns v, which must fit into an int64.
func (d *decoder) signed(v uint64) int64 {
	if v > math.MaxInt64 {
		d.fail(fmt.Errorf("%d is too large", v))
		return 0
	}
	return int64(v)
}

// Times are in milliseconds since the beginning of 1970. maxMilli is the end of the year 9999: time.Time
// can print everything up to there.
const maxMilli = 253_402_300_799_999

// checkTime returns an error if t can't be kept.
func checkTime(t time.Time) error {
	if ms := t.UnixMilli(); ms < 0 || ms > maxMilli {
		return fmt.Errorf("the time %v is not between 1970 and 9999", t)
	}
	return nil
}

// time returns the time of ms, which must be one that checkTime accepts.
func (d *decoder) time(ms uint64) time.Time {
	if ms > maxMilli {
		d.fail(fmt.Errorf("%d milliseconds are after the year 9999", ms))
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// checkNum returns an error if num is not a file number, or a number of a step, both of which
// begin at 1.
func checkNum(what string, num uint64) error {
	if num == 0 || num > maxNum {
		return fmt.Errorf("%s %d is not in [1, %d]", what, num, uint64(maxNum))
	}
	return nil
}

// maxNum is the largest number of a file of a store, and of a step.
const maxNum = 1 << 60

// checkSeq returns an error if seq is above the largest sequence number.
func checkSeq(seq uint64) error {
	if seq > uint64(base.MaxSeq) {
		return fmt.Errorf("sequence number %d is too large", seq)
	}
	return nil
}

// checkText returns an error if s is empty, longer than most bytes, not UTF-8, or has control
// characters, which could do anything to the terminal that it is printed on.
func checkText(what, s string, most int) error {
	if s == "" || len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s %q must be UTF-8 of 1 to %d bytes without control characters", what, s, most)
	}
	return nil
}

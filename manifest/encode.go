package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/internal/base"
)

// An edit is stored as fields, one after the other. A field is a tag, the length of its
// content, and the content; tag and length are varints. Removed, Added and Sidecars have a
// field for each table, Sessions for each session, and the others have one field if they are not zero. So an edit that
// only says that the next file number is 2 is
//
//	02 01 02    tag 2, 1 byte, number 2
//
// These are the tags. Part of the file format; they never change. A reader refuses a manifest
// with an even tag that it does not know, and skips odd ones. So a field that a reader may
// ignore has an odd tag.
const (
	tagNextFileNum = 2
	tagLastSeq     = 4
	tagMinLog      = 6
	tagNewLog      = 8
	tagSealedLog   = 10
	tagRemoved     = 12
	tagAdded       = 14
	tagSidecar     = 15 // odd: a reader that skips it uses the filter in the table
	tagSession     = 17 // odd: a reader that skips it can't tell a restored store from the one before
)

var (
	errShort    = errors.New("edit ends within a field")
	errTrailing = errors.New("field is longer than its content")
	errRepeated = errors.New("field stands twice")
)

// appendTo appends the edit, encoded: for each field its tag, the length of its content, and
// the content. Sidecars of added tables are fields of their own, after all added tables.
func (e *Edit) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, tagNextFileNum, uint64(e.NextFileNum))
	dst = appendNumber(dst, tagLastSeq, uint64(e.LastSeq))
	dst = appendNumber(dst, tagMinLog, uint64(e.MinLog))
	dst = appendNumber(dst, tagNewLog, uint64(e.NewLog))
	var content []byte
	if s := e.SealedLog; s != nil {
		content = appendUvarints(content[:0], uint64(s.Num), uint64(s.Length), uint64(s.LastSeq))
		dst = appendField(dst, tagSealedLog, content)
	}
	for _, r := range e.Removed {
		content = appendUvarints(content[:0], uint64(r.Level), uint64(r.Num))
		dst = appendField(dst, tagRemoved, content)
	}
	for _, a := range e.Added {
		content = a.appendTo(content[:0])
		dst = appendField(dst, tagAdded, content)
	}
	for _, a := range e.Added {
		if s := a.Table.Sidecar; s != nil {
			content = appendBeside(content[:0], a.Level, a.Table.Num, s)
			dst = appendField(dst, tagSidecar, content)
		}
	}
	for _, b := range e.Sidecars {
		content = appendBeside(content[:0], b.Level, b.Num, b.Sidecar)
		dst = appendField(dst, tagSidecar, content)
	}
	for _, s := range e.Sessions {
		content = appendSession(content[:0], s)
		dst = appendField(dst, tagSession, content)
	}
	return dst
}

// appendNumber appends a field with the number v. It appends nothing for 0.
func appendNumber(dst []byte, tag, v uint64) []byte {
	if v == 0 {
		return dst
	}
	var buf [binary.MaxVarintLen64]byte
	return appendField(dst, tag, buf[:binary.PutUvarint(buf[:], v)])
}

// appendField appends a field: tag and length as varints, then the content.
func appendField(dst []byte, tag uint64, content []byte) []byte {
	return append(appendUvarints(dst, tag, uint64(len(content))), content...)
}

// appendUvarints appends varints.
func appendUvarints(dst []byte, values ...uint64) []byte {
	for _, v := range values {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// appendBytes appends the length of b as a varint, and b.
func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendUint32 appends v as 4 bytes, little-endian.
func appendUint32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }

// appendUint64 appends v as 8 bytes, little-endian.
func appendUint64(dst []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(dst, v) }

// appendFloat appends the bits of v as 8 bytes, little-endian.
func appendFloat(dst []byte, v float64) []byte { return appendUint64(dst, math.Float64bits(v)) }

// appendTo appends the content of a field for an added table:
//
// level · run · number · size · checksum u32 · smallest · largest · min seq · max seq ·
// entries · tombstones · keys · raw keys · raw values · filter bytes · filter bits f64
//
// Numbers are varints unless their width is given. Part of the file format.
func (a *Added) appendTo(dst []byte) []byte {
	t := a.Table
	dst = appendUvarints(dst, uint64(a.Level), a.Run, uint64(t.Num), uint64(t.Size))
	dst = appendUint32(dst, t.Checksum)
	dst = appendBytes(dst, t.Smallest)
	dst = appendBytes(dst, t.Largest)
	dst = appendUvarints(dst, uint64(t.MinSeq), uint64(t.MaxSeq), t.Entries, t.Tombstones, t.Keys,
		t.RawKeyBytes, t.RawValueBytes, uint64(t.FilterBytes))
	return appendFloat(dst, t.FilterBits)
}

// added decodes what Added.appendTo has encoded, and checks the table.
func (d *decoder) added() Added {
	a := Added{Level: d.level(), Run: d.uvarint()}
	t := &Table{Num: base.FileNum(d.uvarint()), Size: d.int64(), Checksum: d.uint32()}
	t.Smallest, t.Largest = d.bytes(), d.bytes()
	t.MinSeq, t.MaxSeq = base.Seq(d.uvarint()), base.Seq(d.uvarint())
	t.Entries, t.Tombstones, t.Keys = d.uvarint(), d.uvarint(), d.uvarint()
	t.RawKeyBytes, t.RawValueBytes = d.uvarint(), d.uvarint()
	t.FilterBytes, t.FilterBits = d.int64(), math.Float64frombits(d.uint64())
	if d.err == nil {
		d.err = t.check()
	}
	a.Table = t
	return a
}

// decodeEdit is the inverse of Edit.appendTo. It allocates at most a small multiple of
// len(src). Nothing in its result is a part of src. A field with an unknown even tag is an
// error that wraps base.ErrFormatTooNew.
func decodeEdit(src []byte) (*Edit, error) {
	e := new(Edit)
	seen := uint64(0) // bit t is set if there was a field of tag t; it must not come again
	for len(src) > 0 {
		d := decoder{src: src}
		tag := d.uvarint()
		content := decoder{src: d.next(d.uvarint())}
		if d.err != nil {
			return nil, d.err
		}
		// d has cut the field off, and content is limited to it.
		src = d.src
		// The tags from tagRemoved up are lists and may come again.
		if tag < tagRemoved {
			if seen&(1<<tag) != 0 {
				return nil, fmt.Errorf("field %d: %w", tag, errRepeated)
			}
			seen |= 1 << tag
		}
		known := e.decodeField(tag, &content)
		switch {
		case !known && tag%2 == 0:
			return nil, fmt.Errorf("field %d is unknown: %w", tag, base.ErrFormatTooNew)
		case !known:
			continue
		case content.err != nil:
			return nil, fmt.Errorf("field %d: %w", tag, content.err)
		case len(content.src) > 0:
			return nil, fmt.Errorf("field %d: %w", tag, errTrailing)
		}
	}
	// A sidecar may have come before the table that it is for, so this is done at the end.
	if err := e.foldSidecars(); err != nil {
		return nil, fmt.Errorf("field %d: %w", tagSidecar, err)
	}
	return e, nil
}

// decodeField decodes the content of one field into e. known is false if this program does
// not know the tag.
func (e *Edit) decodeField(tag uint64, d *decoder) (known bool) {
	switch tag {
	case tagNextFileNum:
		e.NextFileNum = base.FileNum(d.uvarint())
	case tagLastSeq:
		e.LastSeq = d.seq()
	case tagMinLog:
		e.MinLog = base.FileNum(d.uvarint())
	case tagNewLog:
		e.NewLog = base.FileNum(d.uvarint())
	case tagSealedLog:
		e.SealedLog = &SealedLog{Num: base.FileNum(d.uvarint()), Length: d.int64(), LastSeq: d.seq()}
	case tagRemoved:
		e.Removed = append(e.Removed, Removed{Level: d.level(), Num: base.FileNum(d.uvarint())})
	case tagAdded:
		e.Added = append(e.Added, d.added())
	case tagSidecar:
		e.Sidecars = append(e.Sidecars, d.beside())
	case tagSession:
		e.Sessions = append(e.Sessions, d.session())
	default:
		return false
	}
	return true
}

// A decoder decodes values from the front of src and cuts them off. Its first error stays,
// and every later value is zero. So callers check err once, at the end.
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

// bytes returns a copy of a byte string. Tables live much longer than the buffer of the
// record that they are decoded from.
func (d *decoder) bytes() []byte { return append([]byte{}, d.next(d.uvarint())...) }

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

// uint32 decodes 4 bytes, little-endian.
func (d *decoder) uint32() uint32 {
	if b := d.next(4); len(b) == 4 {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// uint64 decodes 8 bytes, little-endian.
func (d *decoder) uint64() uint64 {
	if b := d.next(8); len(b) == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// int64 decodes a varint that must fit into an int64: a length or a size.
func (d *decoder) int64() int64 {
	v := d.uvarint()
	if v > math.MaxInt64 {
		d.fail(fmt.Errorf("%d is too large", v))
		return 0
	}
	return int64(v)
}

// seq decodes a sequence number, which must be in range.
func (d *decoder) seq() base.Seq {
	v := base.Seq(d.uvarint())
	if v > base.MaxSeq {
		d.fail(fmt.Errorf("sequence number %d is too large", v))
		return 0
	}
	return v
}

// level decodes a level, which must exist. So the result may be an index of Version.Levels.
func (d *decoder) level() int {
	v := d.uvarint()
	if v >= NumLevels {
		d.fail(fmt.Errorf("level %d is not in [0, %d]", v, NumLevels-1))
		return 0
	}
	return int(v)
}

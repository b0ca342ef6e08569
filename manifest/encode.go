package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/internal/spans"
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
	tagSpan        = 16
	tagSession     = 17 // odd: a reader that skips it can't tell a restored store from the one before
	tagFinished    = 18
	tagFacts       = 19 // odd: a reader that skips it rewrites tables that need it no more, or later
	tagElsewhere   = 20 // even: a reader that skips it calls a table damaged that is elsewhere
	tagClock       = 21 // odd: a reader that skips it has a clock of its own
)

// appendTo appends the edit, encoded: for each field its tag, the length of its content, and
// the content. Sidecars of added tables are fields of their own, after all added tables.
func (e *Edit) appendTo(dst []byte) []byte {
	dst = fields.AppendNumber(dst, tagNextFileNum, uint64(e.NextFileNum))
	dst = fields.AppendNumber(dst, tagLastSeq, uint64(e.LastSeq))
	dst = fields.AppendNumber(dst, tagMinLog, uint64(e.MinLog))
	dst = fields.AppendNumber(dst, tagNewLog, uint64(e.NewLog))
	var content []byte
	if s := e.SealedLog; s != nil {
		content = fields.AppendUvarints(content[:0], uint64(s.Num), uint64(s.Length), uint64(s.LastSeq))
		dst = fields.Append(dst, tagSealedLog, content)
	}
	for _, r := range e.Removed {
		content = fields.AppendUvarints(content[:0], uint64(r.Level), uint64(r.Num))
		dst = fields.Append(dst, tagRemoved, content)
	}
	for _, a := range e.Added {
		content = a.appendTo(content[:0])
		dst = fields.Append(dst, tagAdded, content)
	}
	for _, a := range e.Added {
		if s := a.Table.Sidecar; s != nil {
			content = appendSidecarChange(content[:0], a.Level, a.Table.Num, s)
			dst = fields.Append(dst, tagSidecar, content)
		}
	}
	for _, b := range e.Sidecars {
		content = appendSidecarChange(content[:0], b.Level, b.Num, b.Sidecar)
		dst = fields.Append(dst, tagSidecar, content)
	}
	for _, a := range e.Added {
		dst = appendFacts(dst, a)
	}
	dst = fields.AppendNumber(dst, tagClock, uint64(e.Clock))
	if e.Elsewhere != "" {
		dst = fields.Append(dst, tagElsewhere, []byte(e.Elsewhere))
	}
	for _, f := range e.Finished {
		content = f.appendTo(content[:0])
		dst = fields.Append(dst, tagFinished, content)
	}
	for f := range e.Spans.All() {
		content = appendFragment(content[:0], f)
		dst = fields.Append(dst, tagSpan, content)
	}
	for _, s := range e.Sessions {
		content = appendSession(content[:0], s)
		dst = fields.Append(dst, tagSession, content)
	}
	return dst
}

// appendBytes appends the length of b as a varint, and b.
//
//go:noinline
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
	dst = fields.AppendUvarints(dst, uint64(a.Level), a.Run, uint64(t.Num), uint64(t.Size))
	dst = appendUint32(dst, t.Checksum)
	dst = appendBytes(dst, t.Smallest)
	dst = appendBytes(dst, t.Largest)
	dst = fields.AppendUvarints(dst, uint64(t.MinSeq), uint64(t.MaxSeq), t.Entries, t.Tombstones, t.Keys,
		t.RawKeyBytes, t.RawValueBytes, uint64(t.FilterBytes))
	return appendFloat(dst, t.FilterBits)
}

// added decodes what Added.appendTo has encoded, and checks the table.
func (d decoder) added() Added {
	a := Added{Level: d.level(), Run: d.Uvarint()}
	t := &Table{Num: base.FileNum(d.Uvarint()), Size: d.Int64(), Checksum: d.Uint32()}
	t.Smallest, t.Largest = d.bytes(), d.bytes()
	t.MinSeq, t.MaxSeq = base.Seq(d.Uvarint()), base.Seq(d.Uvarint())
	t.Entries, t.Tombstones, t.Keys = d.Uvarint(), d.Uvarint(), d.Uvarint()
	t.RawKeyBytes, t.RawValueBytes = d.Uvarint(), d.Uvarint()
	t.FilterBytes, t.FilterBits = d.Int64(), math.Float64frombits(d.Uint64())
	if d.Err == nil {
		d.Err = t.check()
	}
	a.Table = t
	return a
}

// decodeEdit is the inverse of Edit.appendTo. It allocates at most a small multiple of
// len(src). Nothing in its result is a part of src. A field with an unknown even tag is an
// error that wraps base.ErrFormatTooNew.
func decodeEdit(src []byte) (*Edit, error) {
	e := new(Edit)
	// The tags from tagRemoved up are lists and may come again.
	lists := func(tag uint64) bool { return tag >= tagRemoved && tag != tagClock && tag != tagElsewhere }
	err := fields.Decode(src, lists, func(tag uint64, d *fields.Decoder) bool { return e.decodeField(tag, decoder{d}) })
	if err != nil {
		return nil, err
	}
	if err := e.foldFacts(); err != nil {
		return nil, fmt.Errorf("field %d: %w", tagFacts, err)
	}
	var ordered bool
	if e.Spans, ordered = spans.Join(e.fragments); !ordered {
		return nil, fmt.Errorf("field %d: range deletes are out of order", tagSpan)
	}
	e.fragments = nil
	// A sidecar may have come before the table that it is for, so this is done at the end.
	if err := e.foldSidecars(); err != nil {
		return nil, fmt.Errorf("field %d: %w", tagSidecar, err)
	}
	if err := e.foldFacts(); err != nil {
		return nil, fmt.Errorf("field %d: %w", tagFacts, err)
	}
	return e, nil
}

// decodeField decodes the content of one field into e. known is false if this program does
// not know the tag.
func (e *Edit) decodeField(tag uint64, d decoder) (known bool) {
	switch tag {
	case tagNextFileNum:
		e.NextFileNum = base.FileNum(d.Uvarint())
	case tagLastSeq:
		e.LastSeq = d.seq()
	case tagMinLog:
		e.MinLog = base.FileNum(d.Uvarint())
	case tagNewLog:
		e.NewLog = base.FileNum(d.Uvarint())
	case tagSealedLog:
		e.SealedLog = &SealedLog{Num: base.FileNum(d.Uvarint()), Length: d.Int64(), LastSeq: d.seq()}
	case tagRemoved:
		e.Removed = append(e.Removed, Removed{Level: d.level(), Num: base.FileNum(d.Uvarint())})
	case tagAdded:
		e.Added = append(e.Added, d.added())
	case tagSidecar:
		e.Sidecars = append(e.Sidecars, d.sidecarChange())
	case tagFacts:
		e.facts = append(e.facts, d.facts())
	case tagFinished:
		e.Finished = append(e.Finished, d.finished())
	case tagSpan:
		if f := d.fragment(); d.Err == nil {
			e.fragments = append(e.fragments, f)
		}
	case tagClock:
		e.Clock = d.Int64()
	case tagElsewhere:
		e.Elsewhere = string(d.Rest())
	case tagSession:
		e.Sessions = append(e.Sessions, d.session())
	default:
		return false
	}
	return true
}

// A decoder decodes what edits have besides the values of package fields.
type decoder struct{ *fields.Decoder }

// bytes returns a copy of a byte string. Tables live much longer than the buffer of the
// record that they are decoded from.
func (d decoder) bytes() []byte { return append([]byte{}, d.Next(d.Uvarint())...) }

// seq decodes a sequence number, which must be in range.
func (d decoder) seq() base.Seq {
	v := base.Seq(d.Uvarint())
	if v > base.MaxSeq {
		d.Fail(fmt.Errorf("sequence number %d is too large", v))
		return 0
	}
	return v
}

// level decodes a level, which must exist. So the result may be an index of Version.Levels.
func (d decoder) level() int {
	v := d.Uvarint()
	if v >= NumLevels {
		d.Fail(fmt.Errorf("level %d is not in [0, %d]", v, NumLevels-1))
		return 0
	}
	return int(v)
}

package sstable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/internal/base"
)

// Properties describe what a table holds. They are stored in a block of their own.
type Properties struct {
	kinds             uint64   // bit k is set if an entry has kind k
	Entries           uint64   // versions of keys, tombstones included
	Tombstones        uint64   // deletions
	Keys              uint64   // distinct user keys
	Smallest, Largest []byte   // user keys
	MinSeq, MaxSeq    base.Seq // the lowest and the highest sequence number
	RawKeyBytes       uint64   // sum of the lengths of all user keys, each version counted
	RawValueBytes     uint64   // sum of the lengths of all values
	DataBlocks        uint64   // how many
	DataBytes         int64    // file offset where data blocks end
	Partitions        uint64   // of the index; 0: it has one level
	FilterBits        float64  // bits for each key, as WriterOptions said; 0: no filter

	// If prefixRule is set, the filter knows the prefixes of the keys too. prefixes is the
	// number of distinct ones; 0 without a filter.
	prefixRule base.PrefixRule
	prefixes   uint64

	// ingested is 1 in a table whose entries have no sequence numbers of their own. In the
	// file their number is 0, and the manifest has the one number of all of them. In what a
	// Reader returns, MinSeq and MaxSeq are that number (ReaderOptions.Seq).
	ingested uint64

	// Session is the id of the session that has written the table: see manifest.Session. 0: none,
	// because an earlier program has written it. The file checksum can't tell two tables of one
	// number apart: a crc over blocks that end with their own crc depends on their lengths only.
	Session uint64
}

// The properties are stored as fields: a tag, the length of the content, and the content. Tag
// and length are varints. The content is a varint, the bytes of a key, or the 8 bytes of a session.
//
// These are the tags. Part of the file format. A reader skips odd tags that it does not know,
// and refuses the table if it does not know an even one. So a property that a reader may
// ignore has an odd tag.
const (
	propKinds         = 2
	propEntries       = 4
	propTombstones    = 5
	propKeys          = 6
	propSmallest      = 8
	propLargest       = 10
	propMinSeq        = 12
	propMaxSeq        = 14
	propRawKeyBytes   = 15
	propRawValueBytes = 17
	propDataBlocks    = 18
	propDataBytes     = 20
	propPartitions    = 21
	propFilterBits    = 23
	propPrefixRule    = 25
	propPrefixes      = 27
	propIngested      = 28
	propSession       = 29
)

// knownKinds has a bit for each kind of entry that this program can read.
const knownKinds = 1<<base.KindDelete | 1<<base.KindPut | 1<<base.KindExpiring

// appendTo appends the properties, encoded in the order of their tags. Fields that are 0 are
// left out.
func (p *Properties) appendTo(dst []byte) []byte {
	dst = appendNumber(dst, propKinds, p.kinds)
	dst = appendNumber(dst, propEntries, p.Entries)
	dst = appendNumber(dst, propTombstones, p.Tombstones)
	dst = appendNumber(dst, propKeys, p.Keys)
	dst = appendBytes(dst, propSmallest, p.Smallest)
	dst = appendBytes(dst, propLargest, p.Largest)
	dst = appendNumber(dst, propMinSeq, uint64(p.MinSeq))
	dst = appendNumber(dst, propMaxSeq, uint64(p.MaxSeq))
	dst = appendNumber(dst, propRawKeyBytes, p.RawKeyBytes)
	dst = appendNumber(dst, propRawValueBytes, p.RawValueBytes)
	dst = appendNumber(dst, propDataBlocks, p.DataBlocks)
	dst = appendNumber(dst, propDataBytes, uint64(p.DataBytes))
	dst = appendNumber(dst, propPartitions, p.Partitions)
	dst = appendNumber(dst, propFilterBits, uint64(p.FilterBits*1000+0.5))
	dst = appendNumber(dst, propPrefixRule, encodeRule(p.prefixRule))
	dst = appendNumber(dst, propPrefixes, p.prefixes)
	dst = appendNumber(dst, propIngested, p.ingested)
	if p.Session != 0 {
		dst = appendBytes(dst, propSession, binary.LittleEndian.AppendUint64(nil, p.Session))
	}
	return dst
}

// unnumbered reports whether all entries can be given one sequence number: each is a put with
// number 0, and no two have the same key.
func (p *Properties) unnumbered() bool {
	return p.MaxSeq == 0 && p.Entries == p.Keys && p.Tombstones == 0
}

// encodeRule returns the rule as a number: Length · 2, or (Count · 256 + Delimiter) · 2 + 1.
// Part of the file format. No rule is 0.
func encodeRule(r base.PrefixRule) uint64 {
	if r.Count > 0 {
		return (uint64(r.Count)<<8|uint64(r.Delimiter))<<1 | 1
	}
	return uint64(r.Length) << 1
}

// decodeRule is the inverse of encodeRule. It refuses 0, which is not stored.
func decodeRule(v uint64) (base.PrefixRule, error) {
	if v>>1 > math.MaxUint16 {
		return base.PrefixRule{}, errPropsValue
	}
	r := base.PrefixRule{Length: int(v >> 1)}
	if v&1 != 0 {
		r = base.PrefixRule{Count: int(v >> 9), Delimiter: byte(v >> 1)}
	}
	if !r.Valid() || r == (base.PrefixRule{}) {
		return base.PrefixRule{}, errPropsValue
	}
	return r, nil
}

// appendNumber appends a field with the number v. It appends nothing for 0.
func appendNumber(dst []byte, tag, v uint64) []byte {
	if v == 0 {
		return dst
	}
	var content [binary.MaxVarintLen64]byte
	return appendBytes(dst, tag, content[:binary.PutUvarint(content[:], v)])
}

// appendBytes appends a field: tag and length as varints, then the content.
func appendBytes(dst []byte, tag uint64, content []byte) []byte {
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, uint64(len(content)))
	return append(dst, content...)
}

var (
	errPropsField = errors.New("field out of bounds")
	errPropsTwice = errors.New("field given twice")
	errPropsValue = errors.New("field is no number in range")
)

// decodeProperties decodes the payload of a properties block. Smallest and Largest are parts
// of b. A field may come only once. An unknown even tag, or an unknown kind of entry, is
// base.ErrFormatTooNew.
func decodeProperties(b []byte) (*Properties, error) {
	p := new(Properties)
	var seen uint64
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errPropsField
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || length > uint64(len(b)-n-m) {
			return nil, errPropsField
		}
		b = b[n+m:]
		content := b[:length:length]
		b = b[length:]
		// All known tags are below 64, so one word can note which of them have come.
		if tag < 64 {
			if seen>>tag&1 != 0 {
				return nil, errPropsTwice
			}
			seen |= 1 << tag
		}
		if err := p.set(tag, content); err != nil {
			return nil, err
		}
	}
	// The kinds say what is in the data blocks, so a table with a new kind is refused at
	// once, before a lookup meets it.
	if unknown := p.kinds &^ knownKinds; unknown != 0 {
		return nil, fmt.Errorf("%w (kinds of entries %#x)", base.ErrFormatTooNew, unknown)
	}
	if p.MaxSeq > base.MaxSeq || p.MinSeq > p.MaxSeq || p.DataBytes < 0 || p.ingested > 1 || p.ingested == 1 && !p.unnumbered() {
		return nil, errPropsValue
	}
	return p, nil
}

// set sets the field that a tag stands for.
func (p *Properties) set(tag uint64, content []byte) error {
	switch tag {
	case propSmallest:
		p.Smallest = content
		return nil
	case propLargest:
		p.Largest = content
		return nil
	case propSession:
		if len(content) != 8 {
			return errPropsValue
		}
		p.Session = binary.LittleEndian.Uint64(content)
		return nil
	}
	dst := p.number(tag)
	if dst == nil {
		return p.setOther(tag, content)
	}
	v, n := binary.Uvarint(content)
	if n != len(content) || n <= 0 {
		return errPropsValue
	}
	*dst = v
	return nil
}

// number returns the field of a tag if it is a uint64, else nil.
func (p *Properties) number(tag uint64) *uint64 {
	switch tag {
	case propKinds:
		return &p.kinds
	case propEntries:
		return &p.Entries
	case propTombstones:
		return &p.Tombstones
	case propKeys:
		return &p.Keys
	case propMinSeq:
		return (*uint64)(&p.MinSeq)
	case propMaxSeq:
		return (*uint64)(&p.MaxSeq)
	case propRawKeyBytes:
		return &p.RawKeyBytes
	case propRawValueBytes:
		return &p.RawValueBytes
	case propDataBlocks:
		return &p.DataBlocks
	case propPartitions:
		return &p.Partitions
	case propPrefixes:
		return &p.prefixes
	case propIngested:
		return &p.ingested
	}
	return nil
}

// setOther sets the fields of other number types. It ignores unknown odd tags, and refuses
// unknown even ones.
func (p *Properties) setOther(tag uint64, content []byte) error {
	if tag != propDataBytes && tag != propFilterBits && tag != propPrefixRule {
		if tag&1 == 0 {
			return fmt.Errorf("%w (property %d)", base.ErrFormatTooNew, tag)
		}
		return nil
	}
	v, n := binary.Uvarint(content)
	if n != len(content) || n <= 0 || v > math.MaxInt64 {
		return errPropsValue
	}
	var err error
	switch tag {
	case propDataBytes:
		p.DataBytes = int64(v)
	case propFilterBits:
		p.FilterBits = float64(v) / 1000
	case propPrefixRule:
		p.prefixRule, err = decodeRule(v)
	}
	return err
}

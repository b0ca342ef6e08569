package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Limits of a header that is read. The headers that are written have 15 to 19 bytes. Longer
// ones are accepted, because Parquet may add fields.
const (
	maxHeader = 1 << 10 // bytes
	maxDepth  = 8       // structures inside each other
)

// Types of Thrift's compact protocol.
const (
	typeStop   = 0
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeInt16  = 4
	typeInt32  = 5
	typeInt64  = 6
	typeDouble = 7
	typeBinary = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
	typeUUID   = 13
)

// union is the encoding of field 2, 3 or 4, each of which follows the field with the number
// before it. It is a struct whose field 1 is an empty struct, which stands for BLOCK, XXHASH
// or UNCOMPRESSED.
var union = []byte{1<<4 | typeStruct, 1<<4 | typeStruct, typeStop, typeStop}

// appendHeader appends a BloomFilterHeader for numBytes bytes of blocks.
func appendHeader(dst []byte, numBytes int) []byte {
	dst = append(dst, 1<<4|typeInt32)
	dst = binary.AppendVarint(dst, int64(numBytes))
	for range 3 {
		dst = append(dst, union...)
	}
	return append(dst, typeStop)
}

// A decoder reads a header byte by byte, so that it never reads past its end.
type decoder struct {
	r io.Reader
	n int64 // bytes read
	b [1]byte
}

// readByte reads the next byte. It returns an error after maxHeader bytes, which
// ends every loop of the decoder.
func (d *decoder) readByte() (byte, error) {
	if d.n == maxHeader {
		return 0, damage("a header of more than %d bytes", maxHeader)
	}
	if _, err := io.ReadFull(d.r, d.b[:]); err != nil {
		return 0, form.ReadError("parquet", err, d.n)
	}
	d.n++
	return d.b[0], nil
}

// uvarint reads an unsigned number: groups of 7 bits, the lowest first.
func (d *decoder) uvarint() (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := d.readByte()
		if err != nil {
			return 0, err
		}
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			return v, nil
		}
	}
	return 0, damage("a number of more than 10 bytes")
}

// varint reads a signed number, in zigzag encoding.
func (d *decoder) varint() (int64, error) {
	v, err := d.uvarint()
	return int64(v>>1) ^ -int64(v&1), err
}

// fields calls each for every field of a struct, with the id and the type of the
// field. each has to read the value.
func (d *decoder) fields(each func(id int64, typ byte) error) error {
	for id := int64(0); ; {
		b, err := d.readByte()
		if err != nil || b == typeStop {
			return err
		}
		if delta := int64(b >> 4); delta != 0 {
			id += delta
		} else if id, err = d.varint(); err != nil {
			return err
		}
		if err := each(id, b&15); err != nil {
			return err
		}
	}
}

// skip reads a value that is not needed. A list cannot make it run for long: each element
// takes at least a byte, and readByte stops after maxHeader.
func (d *decoder) skip(typ byte, depth int) error {
	if depth == maxDepth {
		return damage("structures in structures in the header")
	}
	switch typ {
	case typeTrue, typeFalse: // the type is the value
		return nil
	case typeByte:
		return d.discard(1)
	case typeInt16, typeInt32, typeInt64:
		_, err := d.uvarint()
		return err
	case typeDouble:
		return d.discard(8)
	case typeUUID:
		return d.discard(16)
	case typeBinary:
		n, err := d.uvarint()
		if err != nil {
			return err
		}
		return d.discard(n)
	case typeList, typeSet:
		b, err := d.readByte()
		if err != nil {
			return err
		}
		n := uint64(b >> 4)
		if n == 15 {
			if n, err = d.uvarint(); err != nil {
				return err
			}
		}
		return d.elements(n, depth, b&15)
	case typeMap:
		n, err := d.uvarint()
		if err != nil || n == 0 {
			return err
		}
		b, err := d.readByte()
		if err != nil {
			return err
		}
		return d.elements(n, depth, b>>4, b&15)
	case typeStruct:
		return d.fields(func(_ int64, typ byte) error { return d.skip(typ, depth+1) })
	}
	return damage("a value of type %d", typ)
}

// elements skips n times one value of each of the types.
func (d *decoder) elements(n uint64, depth int, types ...byte) error {
	for range n {
		for _, typ := range types {
			if typ == typeTrue || typ == typeFalse {
				typ = typeByte // within lists a bool takes a byte
			}
			if err := d.skip(typ, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard reads n bytes.
func (d *decoder) discard(n uint64) error {
	for range n {
		if _, err := d.readByte(); err != nil {
			return err
		}
	}
	return nil
}

// header reads a BloomFilterHeader and returns its numBytes, a positive multiple of
// BlockBytes. All four fields must be there, each once. Other fields are skipped.
func (d *decoder) header() (numBytes int, err error) {
	names := [...]string{1: "numBytes", "algorithm", "hash", "compression"}
	var seen [len(names)]bool
	err = d.fields(func(id int64, typ byte) error {
		if id < 1 || id >= int64(len(names)) {
			return d.skip(typ, 0)
		}
		want := byte(typeStruct)
		if id == 1 {
			want = typeInt32
		}
		if typ != want || seen[id] {
			return damage("field %s of type %d, want one of type %d", names[id], typ, want)
		}
		seen[id] = true
		if id != 1 {
			return d.union(names[id])
		}
		v, err := d.varint()
		if err == nil && (v <= 0 || v > math.MaxInt32 || v%BlockBytes != 0) {
			err = damage("numBytes is %d", v)
		}
		numBytes = int(v)
		return err
	})
	if err != nil {
		return 0, err
	}
	for id := 1; id < len(names); id++ {
		if !seen[id] {
			return 0, damage("no %s", names[id])
		}
	}
	return numBytes, nil
}

// union reads a union whose only known member is the first. The error for another
// member is bloom.ErrUnknown.
func (d *decoder) union(name string) error {
	seen := false
	err := d.fields(func(id int64, typ byte) error {
		switch {
		case id != 1:
			return fmt.Errorf("parquet: read filter: %w: %s %d", bloom.ErrUnknown, name, id)
		case typ != typeStruct || seen:
			return damage("%s of type %d", name, typ)
		}
		seen = true
		return d.skip(typ, 0)
	})
	if err == nil && !seen {
		err = damage("%s is empty", name)
	}
	return err
}

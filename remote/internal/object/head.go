package object

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
	"github.com/shaledb/shale/remote/internal/bucket"
)

// What all objects have in common: the head, the checksum at the end, and how the error of a
// decoder becomes damage that names its object.

// FormatVersion is the version of the objects that this package writes.
const FormatVersion = 1

// All objects begin alike:
//
// magic 8 · version u32 · crc32c of bytes 0 to 11 u32 · store id u64
//
// All but segments end with the crc32c of everything before, u32. These are part of the format and
// never change.
const (
	identityMagic = "shaleBKT"
	segmentMagic  = "shaleSEG"
	stepMagic     = "shaleSTP"
	stateMagic    = "shaleSTA"
	pinMagic      = "shalePIN"

	HeadSize = 24
	SumSize  = 4
)

// AppendHead appends the head of an object, and the numbers that follow it.
func AppendHead(dst []byte, magic string, storeID uint64, numbers ...uint64) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, FormatVersion)
	dst = binary.LittleEndian.AppendUint64(AppendSum(dst, start), storeID)
	for _, v := range numbers {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// AppendSum appends the crc32c of dst[start:].
func AppendSum(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(dst, bucket.Checksum(dst[start:]))
}

// CheckHead checks the head of an object, except for the store id, which it returns. size is
// the least number of bytes of such an object. The error names no object.
func CheckHead(src []byte, magic string, size int) (storeID uint64, err error) {
	if len(src) < size {
		return 0, fmt.Errorf("%d bytes, it has %d at least", len(src), size)
	}
	if string(src[:8]) != magic {
		return 0, fmt.Errorf("magic %q, want %q", src[:8], magic)
	}
	// The version has a checksum of its own, because only up to here all versions are alike. So an
	// object of a newer format is never taken for damage, nor damage for a newer format.
	if err := CheckStored(src[:12], src[12:]); err != nil {
		return 0, fmt.Errorf("version: %w", err)
	}
	switch v := binary.LittleEndian.Uint32(src[8:]); {
	case v > FormatVersion:
		return 0, fmt.Errorf("version %d: %w", v, base.ErrFormatTooNew)
	case v == 0:
		return 0, errors.New("version 0")
	}
	return binary.LittleEndian.Uint64(src[16:]), nil
}

// CheckStored compares the crc32c of b with the one that stored begins with.
func CheckStored(b, stored []byte) error {
	if got, want := bucket.Checksum(b), binary.LittleEndian.Uint32(stored); got != want {
		return fmt.Errorf("checksum %08x, want %08x", got, want)
	}
	return nil
}

// Unseal checks the head of an object and the checksum at its end, and returns the bytes between
// the two. size is the least number of bytes of such an object.
// content is a part of src.
func Unseal(src []byte, magic string, size int) (storeID uint64, content []byte, err error) {
	storeID, err = CheckHead(src, magic, size)
	if err != nil {
		return 0, nil, err
	}
	end := len(src) - SumSize
	if err := CheckStored(src[:end], src[end:]); err != nil {
		return 0, nil, err
	}
	return storeID, src[HeadSize:end], nil
}

// A decodable is a step, a state or a pin: a head, some numbers, fields, and a checksum.
type decodable interface {
	Name() string
	decodeField(tag uint64, d *fields.Decoder) (known bool)
	check() error
}

// decodeObject decodes the object with the given name, which must belong to the store. begin decodes what is before the
// fields. size is the least number of bytes of such an object, and part says what it is.
func decodeObject[T decodable](
	name, magic, part string, size int, storeID uint64, src []byte, begin func(storeID uint64, d *fields.Decoder) T,
) (o T, err error) {
	// The checks go from the outside in: checksums, fields, what the fields say together, and last
	// whether the object belongs to this store and name.
	id, content, err := Unseal(src, magic, size)
	if err == nil {
		d := fields.Decoder{Src: content}
		o = begin(id, &d)
		if err = d.Err; err == nil {
			err = decodeFields(d.Src, o.decodeField)
		}
	}
	if err == nil {
		err = o.check()
	}
	if err == nil {
		err = CheckWhere(o, id, name, storeID)
	}
	if err != nil {
		var none T
		return none, Damage(name, part, err)
	}
	return o, nil
}

// checkStore returns an error if an object is of another store.
func checkStore(got, want uint64) error {
	if got != want {
		return fmt.Errorf("it belongs to store %016x, not to %016x", got, want)
	}
	return nil
}

// CheckWhere returns an error if an object, which says to which store and name it belongs, is of another store or stands
// under another name.
// An object that somebody has copied to another name, or from another store, is whole and still
// must not be believed.
func CheckWhere(object interface{ Name() string }, itsStore uint64, name string, storeID uint64) error {
	if err := checkStore(itsStore, storeID); err != nil {
		return err
	}
	if says := object.Name(); says != name {
		return fmt.Errorf("it is the object %s", says)
	}
	return nil
}

// Damage turns the error of a decoder into the one that callers get. It returns nil for nil.
func Damage(name, part string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, base.ErrFormatTooNew):
		return fmt.Errorf("remote: %s %s: %w", part, name, err)
	}
	return base.Corruption(name, -1, part, err)
}

// EncodeError adds the object to the error of an encoder. It returns nil for nil.
func EncodeError(name string, err error) error { return bucket.CallError("encode", name, err) }

// IsDamage reports whether an error says that bytes are not what shale wrote.
// A newer format is none: no reader may pass such an object by, as it does with damage.
func IsDamage(err error) bool {
	var c *base.CorruptionError
	return errors.As(err, &c)
}

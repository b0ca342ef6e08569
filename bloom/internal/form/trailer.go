// Package form has what the serialized forms of all filters have in common: the trailer, the
// checksum, the errors, the text in base64 and the line that a filter prints as. Its messages
// begin with "bloom: ", because they are those of package bloom and of its sketches.
package form

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// ErrUnknown is bloom.ErrUnknown.
var ErrUnknown = errors.New("unknown filter")

// ErrDamaged is bloom.ErrDamaged.
var ErrDamaged = errors.New("damaged filter")

// TrailerLen is the length of a trailer. Part of the file format, never changes.
const TrailerLen = 32

// The kinds of filter. Part of the file format, never change. There is no kind 0, so that
// bytes of zeros are not a filter. The next kind is 10: 9 belongs to files of versions before
// the first release.
const (
	KindBlocked  = 1
	KindFuse     = 2
	KindFilter   = 3
	KindCounting = 4
	KindCuckoo   = 5
	KindScalable = 6
	KindBitset   = 7
	KindAtomic   = 8
)

// Castagnoli is the table of the checksum.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Head is the part that the trailers of all kinds have in common. A trailer is the last
// 32 bytes of a serialized filter:
//
//	 0    1       2    3   8    12       20   28
//	|kind|version|hash|...|keys|........|seed|crc32c|
//
// Numbers are little-endian. The checksum covers everything in front of it.
type Head struct {
	Keys uint32 // hashes that the filter was built from; 2^32 - 1 for that number or more
	Hash uint8  // the id of the function that made the hashes
	Seed uint64 // of that function
}

// Begin clears the trailer of filter, writes a head into it, and returns the trailer. A count
// of 2^32 - 1 or more is written as that number. The caller fills in the rest and ends with
// Seal.
func Begin(filter []byte, kind, version byte, count uint64, hash uint8, seed uint64) []byte {
	b := Trailer(filter)
	clear(b)
	b[0], b[1], b[2] = kind, version, hash
	binary.LittleEndian.PutUint32(b[8:], uint32(min(count, math.MaxUint32)))
	binary.LittleEndian.PutUint64(b[20:], seed)
	return b
}

// Trailer returns the last 32 bytes of filter. Requires: it has as many.
func Trailer(filter []byte) []byte { return filter[len(filter)-TrailerLen:] }

// HeadOf reads the head in the trailer of filter. Requires: filter has a trailer.
func HeadOf(filter []byte) Head {
	b := Trailer(filter)
	return Head{Keys: binary.LittleEndian.Uint32(b[8:]), Hash: b[2], Seed: binary.LittleEndian.Uint64(b[20:])}
}

// Seal writes the checksum of filter. Requires: all other bytes have their final values.
func Seal(filter []byte) {
	binary.LittleEndian.PutUint32(filter[len(filter)-4:], Checksum(filter))
}

// Checksum returns the checksum of a whole filter, of all bytes but the last four.
func Checksum(filter []byte) uint32 {
	return crc32.Checksum(filter[:len(filter)-4], Castagnoli)
}

// Check compares the checksum at the end of filter. Requires: filter has a trailer.
func Check(filter []byte) error {
	if want, got := binary.LittleEndian.Uint32(filter[len(filter)-4:]), Checksum(filter); got != want {
		return Damage("checksum %08x, stored %08x", got, want)
	}
	return nil
}

// TrailerOf returns the trailer of filter, and checks kind and version in it.
func TrailerOf(filter []byte, kind, version byte) ([]byte, error) {
	if len(filter) < TrailerLen {
		return nil, Damage("%d bytes are less than a trailer", len(filter))
	}
	b := Trailer(filter)
	switch {
	case b[0] != kind:
		return nil, Unknown("kind", uint64(b[0]))
	case b[1] != version:
		return nil, Unknown("version", uint64(b[1]))
	}
	return b, nil
}

// Damage returns an ErrDamaged that says what is wrong.
func Damage(format string, args ...any) error {
	return fmt.Errorf("bloom: open filter: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Unknown returns an ErrUnknown that names the field and its value.
func Unknown(what string, v uint64) error {
	return fmt.Errorf("bloom: open filter: %w: %s %d", ErrUnknown, what, v)
}

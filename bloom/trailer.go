package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrUnknown says that a filter is of a kind, version or hash that this
// program does not know. Any key may be there.
var ErrUnknown = errors.New("unknown filter")

// ErrDamaged says that bytes are not a filter as this package wrote it. Any
// key may be there.
var ErrDamaged = errors.New("damaged filter")

// What stands in a trailer. Part of the file format, never changes. Kind 0 is
// never given out: bytes of zeros are no filter.
const (
	trailerLen     = 32
	kindBlocked    = 1
	blockedVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A trailer is the last 32 bytes of a serialized filter:
//
//	 0    1       2    3     4  5  6      8    12     16     20   28
//	|kind|version|hash|units|k0|k1|0     |keys|lines0|lines1|seed|crc32c|
//
// Numbers are little-endian. Kind, version and hash mean the same in every
// version; the rest belongs to the version. The checksum covers everything in
// front of it, the lines too.
type trailer struct {
	units int       // 1 or 2
	k     [2]uint32 // probes of each unit; 0 for no unit
	keys  uint32    // hashes it was built from; 2^32 - 1 for that many or more
	lines [2]uint32 // of each unit; 0 for no unit
}

// size is the length of the whole filter.
func (t *trailer) size() uint64 {
	return (uint64(t.lines[0])+uint64(t.lines[1]))*lineBytes + trailerLen
}

// put writes t over the last bytes of filter, whose lines are final.
func (t *trailer) put(filter []byte) {
	b := filter[len(filter)-trailerLen:]
	clear(b)
	b[0], b[1], b[2] = kindBlocked, blockedVersion, byte(HashMurmur3)
	b[3], b[4], b[5] = byte(t.units), byte(t.k[0]), byte(t.k[1])
	binary.LittleEndian.PutUint32(b[8:], t.keys)
	binary.LittleEndian.PutUint32(b[12:], t.lines[0])
	binary.LittleEndian.PutUint32(b[16:], t.lines[1])
	binary.LittleEndian.PutUint32(b[28:], checksum(filter))
}

// checksum is that of a whole filter but for its last four bytes.
func checksum(filter []byte) uint32 {
	return crc32.Checksum(filter[:len(filter)-4], castagnoli)
}

// parseTrailer reads and checks the trailer at the end of filter: what it is
// first, then its lengths, then the checksum, then the values.
func parseTrailer(filter []byte) (trailer, error) {
	if len(filter) < trailerLen {
		return trailer{}, damage("%d bytes are less than a trailer", len(filter))
	}
	b := filter[len(filter)-trailerLen:]
	switch {
	case b[0] != kindBlocked:
		return trailer{}, unknown("kind", uint64(b[0]))
	case b[1] != blockedVersion:
		return trailer{}, unknown("version", uint64(b[1]))
	case HashID(b[2]) != HashMurmur3:
		return trailer{}, unknown("hash", uint64(b[2]))
	}
	t := trailer{
		units: int(b[3]),
		k:     [2]uint32{uint32(b[4]), uint32(b[5])},
		keys:  binary.LittleEndian.Uint32(b[8:]),
		lines: [2]uint32{binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])},
	}
	if t.size() != uint64(len(filter)) {
		return trailer{}, damage("%d + %d lines in %d bytes", t.lines[0], t.lines[1], len(filter))
	}
	if want, got := binary.LittleEndian.Uint32(b[28:]), checksum(filter); got != want {
		return trailer{}, damage("checksum %08x, stored %08x", got, want)
	}
	// A program that hashes with a seed says so here; our hashes would be
	// others, and a probe with them would deny keys.
	if seed := binary.LittleEndian.Uint64(b[20:]); seed != 0 {
		return trailer{}, unknown("seed", seed)
	}
	return t, t.check(binary.LittleEndian.Uint16(b[6:]))
}

// check finds values that no writer of this version makes. The probes rely on
// it: at least one line, k within what the products yield.
func (t *trailer) check(reserved uint16) error {
	switch {
	case reserved != 0:
		return damage("reserved bytes are %#x", reserved)
	case t.units < 1 || t.units > 2:
		return damage("%d units", t.units)
	case !validUnit(t.k[0], t.lines[0]):
		return damage("unit 0 has %d probes, %d lines", t.k[0], t.lines[0])
	case t.units == 2 && !validUnit(t.k[1], t.lines[1]), t.units == 1 && (t.k[1] != 0 || t.lines[1] != 0):
		return damage("%d units, the second with %d probes, %d lines", t.units, t.k[1], t.lines[1])
	}
	return nil
}

func validUnit(k, lines uint32) bool { return k >= firstK && k <= maxK && lines >= 1 }

func damage(format string, args ...any) error {
	return fmt.Errorf("bloom: open filter: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func unknown(what string, v uint64) error {
	return fmt.Errorf("bloom: open filter: %w: %s %d", ErrUnknown, what, v)
}

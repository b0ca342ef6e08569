package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrUnknown says that a filter is of a kind, a version or a hash function that this
// program does not know. The caller must assume that any key may be there.
var ErrUnknown = errors.New("unknown filter")

// ErrDamaged says that bytes are not a filter as this package writes it. The caller must
// assume that any key may be there.
var ErrDamaged = errors.New("damaged filter")

// Constants of the trailer. Part of the file format, never change. There is no kind 0, so
// that bytes of zeros are not a filter.
const (
	trailerLen     = 32
	kindBlocked    = 1
	blockedVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A head is the part that the trailers of all kinds have in common. A trailer is the last
// 32 bytes of a serialized filter:
//
//	 0    1       2        8    12       20   28
//	|kind|version|hash|...|keys|........|seed|crc32c|
//
// Numbers are little-endian. The checksum covers everything in front of it.
type head struct {
	keys   uint32 // hashes that the filter was built from; 2^32 - 1 for that number or more
	hasher Hasher // that made the hashes
}

// begin clears the trailer of filter, writes the head into it, and returns the trailer. The
// caller fills in the rest and ends with seal.
func (h *head) begin(filter []byte, kind, version byte) []byte {
	b := filter[len(filter)-trailerLen:]
	clear(b)
	b[0], b[1], b[2] = kind, version, byte(h.hasher.ID())
	binary.LittleEndian.PutUint32(b[8:], h.keys)
	binary.LittleEndian.PutUint64(b[20:], h.hasher.Seed())
	return b
}

// seal writes the checksum of filter. Requires: all other bytes have their final values.
func seal(filter []byte) {
	binary.LittleEndian.PutUint32(filter[len(filter)-4:], checksum(filter))
}

// checksum returns the checksum of a whole filter, of all bytes but the last four.
func checksum(filter []byte) uint32 {
	return crc32.Checksum(filter[:len(filter)-4], castagnoli)
}

// accepts says which hash functions the caller of an open function can ask with. Asked with
// the hashes of another function, a filter would deny keys that it holds.
type accepts bool

const (
	onlyMurmur3 accepts = false
	everyHash   accepts = true
)

// trailerOf returns the trailer of filter, and checks kind, version and hash in it.
func trailerOf(filter []byte, kind, version byte, accepted accepts) ([]byte, error) {
	if len(filter) < trailerLen {
		return nil, damage("%d bytes are less than a trailer", len(filter))
	}
	b := filter[len(filter)-trailerLen:]
	switch id := HashID(b[2]); {
	case b[0] != kind:
		return nil, unknown("kind", uint64(b[0]))
	case b[1] != version:
		return nil, unknown("version", uint64(b[1]))
	case !id.known(), accepted == onlyMurmur3 && id != HashMurmur3:
		return nil, unknown("hash", uint64(id))
	}
	return b, nil
}

// open checks the checksum of filter and reads the head. Requires: the length of
// filter has been checked.
func (h *head) open(filter []byte) error {
	b := filter[len(filter)-trailerLen:]
	if want, got := binary.LittleEndian.Uint32(b[28:]), checksum(filter); got != want {
		return damage("checksum %08x, stored %08x", got, want)
	}
	// This package never writes murmur3 with a seed other than 0. The hashes in such a
	// filter differ from those of Hash.
	hasher, err := NewHasher(HashID(b[2]), binary.LittleEndian.Uint64(b[20:]))
	if err != nil {
		return fmt.Errorf("bloom: open filter: %w", err)
	}
	h.hasher, h.keys = hasher, binary.LittleEndian.Uint32(b[8:])
	return nil
}

// A trailer is the trailer of a blocked filter:
//
//	 0    1       2    3     4  5  6      8    12     16     20   28
//	|kind|version|hash|units|k0|k1|0     |keys|lines0|lines1|seed|crc32c|
type trailer struct {
	head
	units int       // 1 or 2
	k     [2]uint32 // probes of each unit; 0 for no unit
	lines [2]uint32 // of each unit; 0 for no unit
}

// size is the length of the whole filter.
func (t *trailer) size() uint64 {
	return (uint64(t.lines[0])+uint64(t.lines[1]))*lineBytes + trailerLen
}

// put writes t over the last bytes of filter. Requires: the lines have their final values.
func (t *trailer) put(filter []byte) {
	b := t.begin(filter, kindBlocked, blockedVersion)
	b[3], b[4], b[5] = byte(t.units), byte(t.k[0]), byte(t.k[1])
	binary.LittleEndian.PutUint32(b[12:], t.lines[0])
	binary.LittleEndian.PutUint32(b[16:], t.lines[1])
	seal(filter)
}

// parseTrailer reads the trailer at the end of filter. It checks kind, version and hash
// first, then the length, then the checksum, then the values.
func parseTrailer(filter []byte, accepted accepts) (trailer, error) {
	b, err := trailerOf(filter, kindBlocked, blockedVersion, accepted)
	if err != nil {
		return trailer{}, err
	}
	t := trailer{
		units: int(b[3]),
		k:     [2]uint32{uint32(b[4]), uint32(b[5])},
		lines: [2]uint32{binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])},
	}
	if t.size() != uint64(len(filter)) {
		return trailer{}, damage("%d + %d lines in %d bytes", t.lines[0], t.lines[1], len(filter))
	}
	if err := t.open(filter); err != nil {
		return trailer{}, err
	}
	return t, t.check(binary.LittleEndian.Uint16(b[6:]))
}

// check returns an error for values that no writer of this version makes. The probes rely
// on it: with at least one line and at most maxK probes, they stay within the lines.
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

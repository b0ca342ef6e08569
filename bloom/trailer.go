package bloom

import (
	"encoding/binary"
	"fmt"

	"github.com/shaledb/shale/bloom/internal/form"
)

// ErrUnknown says that a filter is of a kind, a version or a hash function that this
// program does not know. The caller must assume that any key may be there.
var ErrUnknown = form.ErrUnknown

// ErrDamaged says that bytes are not a filter as this package writes it. The caller must
// assume that any key may be there.
var ErrDamaged = form.ErrDamaged

// Part of the file format, never changes.
const blockedVersion = 1

// accepts says which hash functions the caller of an open function can ask with. Asked with
// the hashes of another function, a filter would deny keys that it holds.
type accepts bool

const (
	onlyMurmur3 accepts = false
	everyHash   accepts = true
)

// A head is the part that the trailers of Blocked and Fuse have in common: see form.Head.
type head struct {
	keys   uint32 // hashes that the filter was built from; 2^32 - 1 for that number or more
	hasher Hasher // that made the hashes
}

// begin writes the head into the trailer of filter: see form.Begin.
func (h *head) begin(filter []byte, kind, version byte) []byte {
	return form.Begin(filter, kind, version, uint64(h.keys), uint8(h.hasher.ID()), h.hasher.Seed())
}

// trailerOf returns the trailer of filter, and checks kind, version and hash in it.
func trailerOf(filter []byte, kind, version byte, accepted accepts) ([]byte, error) {
	b, err := form.TrailerOf(filter, kind, version)
	if err != nil {
		return nil, err
	}
	if id := HashID(b[2]); !id.known() || accepted == onlyMurmur3 && id != HashMurmur3 {
		return nil, form.Unknown("hash", uint64(id))
	}
	return b, nil
}

// open checks the checksum of a filter of size bytes and reads the head. If filter is only the end of it
// (OpenStored), it can't check that. Requires: the length has been checked.
func (h *head) open(filter []byte, size int64) error {
	if int64(len(filter)) == size {
		if err := form.Check(filter); err != nil {
			return err
		}
	}
	// This package never writes murmur3 with a seed other than 0. The hashes in such a
	// filter differ from those of Hash.
	read := form.HeadOf(filter)
	hasher, err := NewHasher(HashID(read.Hash), read.Seed)
	if err != nil {
		return fmt.Errorf("bloom: open filter: %w", err)
	}
	h.hasher, h.keys = hasher, read.Keys
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
	return (uint64(t.lines[0])+uint64(t.lines[1]))*lineBytes + form.TrailerLen
}

// put writes t over the last bytes of filter. Requires: the lines have their final values.
func (t *trailer) put(filter []byte) {
	b := t.begin(filter, form.KindBlocked, blockedVersion)
	b[3], b[4], b[5] = byte(t.units), byte(t.k[0]), byte(t.k[1])
	binary.LittleEndian.PutUint32(b[12:], t.lines[0])
	binary.LittleEndian.PutUint32(b[16:], t.lines[1])
	form.Seal(filter)
}

// parseTrailer reads the trailer at the end of filter, or of the last bytes of one of size bytes. It checks
// kind, version and hash first, then the length, then the checksum, then the values.
func parseTrailer(filter []byte, size int64, accepted accepts) (trailer, error) {
	b, err := trailerOf(filter, form.KindBlocked, blockedVersion, accepted)
	if err != nil {
		return trailer{}, err
	}
	t := trailer{
		units: int(b[3]),
		k:     [2]uint32{uint32(b[4]), uint32(b[5])},
		lines: [2]uint32{binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])},
	}
	if t.size() != uint64(size) {
		return trailer{}, form.Damage("%d + %d lines in %d bytes", t.lines[0], t.lines[1], size)
	}
	if err := t.open(filter, size); err != nil {
		return trailer{}, err
	}
	return t, t.check(binary.LittleEndian.Uint16(b[6:]))
}

// check returns an error for values that no writer of this version makes. The probes rely
// on it: with at least one line and at most maxK probes, they stay within the lines.
func (t *trailer) check(reserved uint16) error {
	switch {
	case reserved != 0:
		return form.Damage("reserved bytes are %#x", reserved)
	case t.units < 1 || t.units > 2:
		return form.Damage("%d units", t.units)
	case !validUnit(t.k[0], t.lines[0]):
		return form.Damage("unit 0 has %d probes, %d lines", t.k[0], t.lines[0])
	case t.units == 2 && !validUnit(t.k[1], t.lines[1]), t.units == 1 && (t.k[1] != 0 || t.lines[1] != 0):
		return form.Damage("%d units, the second with %d probes, %d lines", t.units, t.k[1], t.lines[1])
	}
	return nil
}

func validUnit(k, lines uint32) bool { return k >= firstK && k <= maxK && lines >= 1 }

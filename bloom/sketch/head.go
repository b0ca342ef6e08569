package sketch

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Geometry of a line, and the multiplier that turns a hash into probes. Part of the file
// format, never change.
const (
	lineBits  = form.LineBits
	lineBytes = form.LineBytes
	probeMul  = form.ProbeMul
)

// A head is the part that the trailers of Counting, Cuckoo and Bitset have in common: see
// form.Head.
type head struct {
	keys   uint32       // in the filter; 2^32 - 1 for that number or more
	hasher bloom.Hasher // of the keys
}

// begin writes a head into the trailer of filter: see form.Begin.
func begin(filter []byte, kind, version byte, keys uint64, hasher bloom.Hasher) []byte {
	return form.Begin(filter, kind, version, keys, uint8(hasher.ID()), hasher.Seed())
}

// trailerOf returns the trailer of filter, and checks in it the kind, the version, and that
// the hash function is one of package bloom.
func trailerOf(filter []byte, kind, version byte) ([]byte, error) {
	b, err := form.TrailerOf(filter, kind, version)
	if err != nil {
		return nil, err
	}
	if _, err := bloom.NewHasher(bloom.HashID(b[2]), 0); err != nil {
		return nil, form.Unknown("hash", uint64(b[2]))
	}
	return b, nil
}

// open checks the checksum of filter and reads the head. Requires: the length of filter has
// been checked.
func (h *head) open(filter []byte) error {
	if err := form.Check(filter); err != nil {
		return err
	}
	read := form.HeadOf(filter)
	hasher, err := bloom.NewHasher(bloom.HashID(read.Hash), read.Seed)
	if err != nil {
		return fmt.Errorf("bloom: open filter: %w", err)
	}
	h.hasher, h.keys = hasher, read.Keys
	return nil
}

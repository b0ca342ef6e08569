package testenv

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// What docs/FORMAT.md says of a table's footer and of its filter block.
const (
	tableFooter   = 108
	footerSum     = 92
	FilterTrailer = 32
	BlockTail     = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FilterBlock returns the filter in a table, and its block with compression and
// checksum.
func FilterBlock(table []byte) (payload, block []byte) {
	foot := table[len(table)-tableFooter:]
	offset, length := binary.LittleEndian.Uint64(foot), binary.LittleEndian.Uint64(foot[8:])
	return table[offset : offset+length], table[offset : offset+length+BlockTail]
}

// PlaceFilter makes the footer say that the filter is there; length 0: nowhere.
func PlaceFilter(table []byte, offset, length int) {
	le, foot := binary.LittleEndian, table[len(table)-tableFooter:]
	if length == 0 {
		offset = 0
	}
	le.PutUint64(foot, uint64(offset))
	le.PutUint64(foot[8:], uint64(length))
	sum := crc32.Checksum(foot[:footerSum], castagnoli)
	le.PutUint32(foot[footerSum:], crc32.Update(sum, castagnoli, foot[footerSum+4:]))
}

// SealTrailer sets the checksum in a filter's trailer right.
func SealTrailer(filter []byte) {
	n := len(filter) - 4
	binary.LittleEndian.PutUint32(filter[n:], crc32.Checksum(filter[:n], castagnoli))
}

// SealFilter sets the checksum of the filter's block right.
func SealFilter(table []byte) {
	_, block := FilterBlock(table)
	foot := table[len(table)-tableFooter:]
	covered := append(bytes.Clone(foot[64:72]), foot[56:64]...) // store, table
	covered = append(covered, 5)                                // a filter block
	covered = append(covered, foot[:8]...)                      // where
	n := len(block) - 4
	covered = append(covered, block[:n]...)
	binary.LittleEndian.PutUint32(block[n:], crc32.Checksum(covered, castagnoli))
}

// BumpFilter makes the first, second or third byte of a table's filter trailer,
// its kind, version or hash, one that there is not yet, and sets all checksums of
// the filter right.
func BumpFilter(table []byte, field int) {
	payload, _ := FilterBlock(table)
	payload[len(payload)-32+field] += 100
	SealTrailer(payload)
	SealFilter(table)
}

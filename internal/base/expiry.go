package base

import "encoding/binary"

// An expiring value begins with the time at which it is over, in 6 bytes:
//
//	milliseconds u48 | value
//
// They are those since the beginning of 1970, little-endian. Part of the file format. From that
// time on the entry is a deletion.

// ExpirySize is the number of bytes in front of an expiring value.
const ExpirySize = 6

// MaxExpiry is the latest time that fits. It is in the year 10889.
const MaxExpiry = 1<<48 - 1

// AppendExpiring appends the value of an entry of KindExpiring that is over at ms. Requires: ms is
// from 0 to MaxExpiry.
func AppendExpiring(dst []byte, ms int64, value []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(ms))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(ms>>32))
	return append(dst, value...)
}

// CutExpiry returns the time at which an expiring value is over, and the value behind it. Of fewer
// bytes than an expiring value has, which checks have refused, it makes a value that is over.
func CutExpiry(stored []byte) (ms int64, value []byte) {
	if len(stored) < ExpirySize {
		return 0, nil
	}
	ms = int64(binary.LittleEndian.Uint32(stored)) | int64(binary.LittleEndian.Uint16(stored[4:]))<<32
	return ms, stored[ExpirySize:]
}

// InTables reports whether tables may have entries of kind k.
func (k Kind) InTables() bool { return k <= KindPut || k == KindExpiring }

// ClampExpiry returns the time next to ms that an entry can have. 0 has always been.
func ClampExpiry(ms int64) int64 { return min(max(ms, 0), MaxExpiry) }

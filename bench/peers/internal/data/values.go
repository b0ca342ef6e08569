package data

import (
	"encoding/binary"

	"github.com/shaledb/shale/bench/peers/internal/keys"
)

// Values makes values of which the first half is random and the rest zeros,
// so that they halve under snappy. The first 8 bytes follow from the key.
type Values struct {
	buf    []byte
	random int // bytes
	state  uint64
}

// NewValues makes values of a size of at least 16 bytes.
func NewValues(size int, seed uint64) *Values {
	v := Apart[Values]()
	*v = Values{buf: BytesApart(size), random: size / 2 &^ 7, state: keys.Mix(seed + 1)}
	return v
}

// Next is valid until the next call.
func (v *Values) Next(key []byte) []byte {
	binary.LittleEndian.PutUint64(v.buf, Tag(key))
	x := v.state
	for i := 8; i < v.random; i += 8 {
		x += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(v.buf[i:], (x^x>>30)*0xbf58476d1ce4e5b9)
	}
	v.state = x
	return v.buf
}

// Tag is what a value of the key starts with.
func Tag(key []byte) uint64 {
	_ = key[KeySize-1]
	x := binary.LittleEndian.Uint64(key)*0x9e3779b97f4a7c15 ^ binary.LittleEndian.Uint64(key[8:])
	return x ^ x>>32
}

// TagOf is what the value starts with, 0 for none.
func TagOf(value []byte) uint64 {
	if len(value) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(value)
}

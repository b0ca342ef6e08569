package sketch

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/bitarray"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Constants of the serialized form. Part of the file format, never change.
const (
	bitsetVersion = 1
)

// AppendBinary appends the serialized set to dst: its words up to the one of the largest
// member, little-endian, and the trailer:
//
//	 0    1       2    3 8       12    20 28
//	|kind|version|hash|0|members|words|0 |crc32c|
//
// A Bitset hashes nothing; the fields for hash and seed say Hash and 0. Words of zeros are
// written like all others, so that reading takes no more memory than there are bytes. The
// limit is not written. The error is always nil.
func (s *Bitset) AppendBinary(dst []byte) ([]byte, error) {
	from, words := len(dst), s.words[:s.used()]
	for _, w := range words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	dst = append(dst, make([]byte, form.TrailerLen)...)
	b := begin(dst[from:], form.KindBitset, bitsetVersion, s.count, bloom.Hasher{})
	binary.LittleEndian.PutUint64(b[12:], uint64(len(words)))
	form.Seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized set. The error is always nil.
func (s *Bitset) MarshalBinary() ([]byte, error) {
	return s.AppendBinary(make([]byte, 0, s.used()*8+form.TrailerLen))
}

// UnmarshalBinary makes s the set that MarshalBinary wrote as b. It copies b, and takes as
// much memory. The limit stays that of s. The error is ErrUnknown or ErrDamaged of package
// bloom, or [ErrRange] if a member is not below the limit; s then is as it was.
func (s *Bitset) UnmarshalBinary(b []byte) error {
	made, err := OpenBitset(b)
	if err != nil {
		return err
	}
	if n := uint64(len(made.words)); n > s.Limit()>>6 {
		return fmt.Errorf("bloom: open bitset: %w: %d words, limit %d", ErrRange, n, s.Limit())
	}
	made.own()
	s.words, s.count, s.shared = made.words, made.count, false
	return nil
}

// OpenBitset returns the set that MarshalBinary wrote as b. It keeps b and does not copy it: b
// must not change while the set is in use. The set copies its words when it is changed for
// the first time, and never changes b. If b does not begin at an address that 8 divides, or
// on a big-endian machine, it copies them at once. The limit is [DefaultLimit], or more if b
// has larger members. Every byte is checked; the error is ErrUnknown or ErrDamaged of package
// bloom.
func OpenBitset(b []byte) (*Bitset, error) {
	t, err := trailerOf(b, form.KindBitset, bitsetVersion)
	if err == nil && bloom.HashID(t[2]) != bloom.HashMurmur3 {
		err = form.Unknown("hash", uint64(t[2]))
	}
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(t[12:])
	if have := len(b) - form.TrailerLen; have%8 != 0 || n != uint64(have/8) || n > mostLimit>>6 {
		return nil, form.Damage("%d words in %d bytes", n, len(b))
	}
	var h head
	if err := h.open(b); err != nil {
		return nil, err
	}
	if zero := binary.LittleEndian.Uint32(t[3:]) | uint32(t[7]); zero != 0 {
		return nil, form.Damage("reserved bytes are %#x", zero)
	}
	words, shared := bitarray.WordsIn(b[: n*8 : n*8])
	count := uint64(0)
	for _, w := range words {
		count += uint64(bits.OnesCount64(w))
	}
	switch {
	case uint64(h.keys) != min(count, math.MaxUint32):
		return nil, form.Damage("%d members, and %d in the trailer", count, h.keys)
	case n > 0 && words[n-1] == 0:
		return nil, form.Damage("the last word is 0")
	}
	limit := uint64(0)
	if n<<6 > DefaultLimit {
		limit = n << 6
	}
	return &Bitset{words: words, count: count, limit: limit, shared: shared}, nil
}

package sketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/bitarray"
	"github.com/shaledb/shale/bloom/internal/form"
)

const (
	scalableVersion = 1
	layerLen        = 32 // bytes that describe a layer, next to its words
)

// The serialized form begins with the words of all layers, the oldest first. For
// each layer follow
//
//	 0        8     16   24     28
//	|capacity|count|bits|probes|0  |
//
// and then the rate that was asked for, as the bits of a float64. The trailer is
//
//	 0    1       2    3     4        8    12     16 20   28
//	|kind|version|hash|flags|expansion|keys|layers|0 |seed|crc32c|
//
// Flag 1 is nonScaling. keys is the sum of the counts, or 2^32 - 1 if the sum is larger.

// AppendBinary appends the serialized form to dst and returns the longer slice. The form
// is the same on every machine. An error leaves dst as it was. It is ErrNoHashID, or
// says that s is a zero Scalable.
func (s *Scalable) AppendBinary(dst []byte) ([]byte, error) {
	switch {
	case len(s.layers) == 0:
		return dst, errors.New("bloom: write filter: it was not made by NewScalable")
	case s.hash.ID() == 0:
		return dst, fmt.Errorf("bloom: write filter: %w", bloom.ErrNoHashID)
	}
	from := len(dst)
	for i := range s.layers {
		dst = s.layers[i].AppendWords(dst)
	}
	for i := range s.layers {
		l := &s.layers[i]
		dst = binary.LittleEndian.AppendUint64(dst, l.capacity)
		dst = binary.LittleEndian.AppendUint64(dst, l.Count)
		dst = binary.LittleEndian.AppendUint64(dst, l.M)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(l.K))
	}
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(s.rate))
	dst = append(dst, make([]byte, form.TrailerLen)...)
	t := form.Begin(dst[from:], form.KindScalable, scalableVersion, s.Count(), uint8(s.hash.ID()), s.hash.Hasher().Seed())
	if s.nonScaling {
		t[3] = 1
	}
	binary.LittleEndian.PutUint32(t[4:], s.expansion)
	binary.LittleEndian.PutUint32(t[12:], uint32(len(s.layers)))
	form.Seal(dst[from:])
	return dst, nil
}

// MarshalBinary returns the serialized form: see AppendBinary.
func (s *Scalable) MarshalBinary() ([]byte, error) {
	info := s.Info()
	return s.AppendBinary(make([]byte, 0, info.SizeBytes+info.Filters*layerLen+8+form.TrailerLen))
}

// UnmarshalBinary makes s the filter whose serialized form is b, all of b. Copying, errors
// and hash functions of the caller's own are as for Filter.UnmarshalBinary.
func (s *Scalable) UnmarshalBinary(b []byte) error {
	made, err := openScalable(b, &s.hash)
	if err != nil {
		return err
	}
	for i := range made.layers {
		made.layers[i].Own()
	}
	*s = *made
	return nil
}

// OpenScalable returns the filter whose serialized form is b, all of b. It keeps b and does
// not copy it: b must not change while the filter is in use. A layer copies its bits when a
// key is added to it for the first time, and b is never changed. What bloom.OpenFilter says
// of addresses, of errors and of hash functions of the caller's own holds here too.
func OpenScalable(b []byte) (*Scalable, error) { return openScalable(b, new(bloom.HashFunc)) }

// openScalable is OpenScalable for a filter whose hash function is own if it is not one of
// package bloom.
func openScalable(b []byte, own *bloom.HashFunc) (*Scalable, error) {
	t, err := form.TrailerOf(b, form.KindScalable, scalableVersion)
	if err != nil {
		return nil, err
	}
	head := form.HeadOf(b)
	hash, err := own.Named(bloom.HashID(head.Hash), head.Seed)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(t[12:])
	if n < 1 || n > maxLayers || uint64(len(b)) < uint64(n)*layerLen+8+form.TrailerLen {
		return nil, form.Damage("%d layers in %d bytes", n, len(b))
	}
	body := len(b) - form.TrailerLen - 8 - int(n)*layerLen // of words
	if err := form.Check(b); err != nil {
		return nil, err
	}
	made := Scalable{
		hash:       hash,
		rate:       math.Float64frombits(binary.LittleEndian.Uint64(b[len(b)-form.TrailerLen-8:])),
		expansion:  binary.LittleEndian.Uint32(t[4:]),
		nonScaling: t[3] == 1,
	}
	switch reserved := binary.LittleEndian.Uint32(t[16:]); {
	case reserved != 0 || t[3] > 1:
		return nil, form.Damage("reserved bytes are %#x, flags %#x", reserved, t[3])
	case made.expansion < 1 || made.expansion > MaxExpansion:
		return nil, form.Damage("expansion by %d", made.expansion)
	case !(made.rate > 0 && made.rate < 1):
		return nil, form.Damage("a rate of %v", made.rate)
	case made.nonScaling && n != 1:
		return nil, form.Damage("%d layers that do not scale", n)
	}
	if err := made.decodeLayers(b[:body], b[body:body+int(n)*layerLen]); err != nil {
		return nil, err
	}
	if keys := binary.LittleEndian.Uint32(t[8:]); uint64(keys) != min(made.Count(), math.MaxUint32) {
		return nil, form.Damage("%d keys, %d counted", keys, made.Count())
	}
	return &made, nil
}

// decodeLayers appends the layers that the bytes layers describe to s. Their words are
// in body, and have to fill it.
func (s *Scalable) decodeLayers(body, layers []byte) error {
	total := uint64(0)
	for ; len(layers) > 0; layers = layers[layerLen:] {
		l := layer{capacity: binary.LittleEndian.Uint64(layers)}
		l.Count = binary.LittleEndian.Uint64(layers[8:])
		l.M = binary.LittleEndian.Uint64(layers[16:])
		k := binary.LittleEndian.Uint64(layers[24:])
		switch {
		case l.M == 0 || l.M%64 != 0 || l.M/8 > uint64(len(body)):
			return form.Damage("a layer of %d bits in %d bytes", l.M, len(body))
		case k < 1 || k > bloom.MaxProbes:
			return form.Damage("a layer with %d probes", k)
		case l.capacity == 0 || l.Count > l.capacity || total+l.Count < total:
			return form.Damage("a layer with %d keys of %d", l.Count, l.capacity)
		}
		total += l.Count
		l.Array = bitarray.Open(body[:l.M/8:l.M/8], int(k), l.Count)
		body = body[l.M/8:]
		s.layers = append(s.layers, l)
	}
	if len(body) > 0 {
		return form.Damage("%d bytes of no layer", len(body))
	}
	return nil
}

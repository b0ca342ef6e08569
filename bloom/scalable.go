package bloom

import (
	"errors"
	"fmt"
	"math"
)

// Scalable is a Bloom filter for a number of keys that nobody knows: when it is
// full it gets another layer, a Filter twice as large at half the rate, so that the
// rates of all together stay below the one that was asked for. It is what RedisBloom does,
// by the same rules: NewScalable is BF.RESERVE, Add and AddMany are BF.ADD and
// BF.MADD, Has and HasMany BF.EXISTS and BF.MEXISTS, Info is BF.INFO.
//
// The price is memory and time: the first layer has half the asked rate and each next one
// half of that, so that at 1 % a key has 11 bits in the first layer, 12.5 in the
// second, and 15.4 in the fourth, and a key that is not there is asked of every
// layer: 16 ns with one, 36 with four. Add asks first, and takes 92 ns on the way to a
// million keys, growth included. At 1 % asked, 0.50 % pass before the first growth,
// 0.93 % after three, and 0.98 % after five, with 16.9 bits a key. Who knows the number of keys within a factor of two takes a Filter.
//
// Not safe for use by several goroutines at once if one of them changes it. Any
// number of them may ask. The zero Scalable says maybe to every key, takes none
// (ErrAtCapacity), and is an error to write. It is for UnmarshalBinary and
// UnmarshalText.
type Scalable struct {
	layers     []layer // at least one, the newest last
	hash       hash128
	rate       float64 // asked for
	expansion  uint32  // at least 1
	nonScaling bool
}

// A layer of a Scalable is for so many keys and takes no more.
type layer struct {
	Filter
	capacity uint64
}

// ScalableOptions are all that NewScalable can do without.
type ScalableOptions struct {
	// Expansion is by how much a layer is larger than the one before: RedisBloom's
	// EXPANSION. 1: layers of equal size, of which there soon are many. Default 2,
	// at most MaxExpansion.
	Expansion int

	// NonScaling: there is one layer, at the rate that is asked for, and Add gives
	// ErrAtCapacity when it is full.
	NonScaling bool

	// The hash function: see FilterOptions.
	Hasher Hasher
	Hash   Hash128
	HashID HashID
}

// MaxExpansion is the largest ScalableOptions.Expansion, RedisBloom's.
const MaxExpansion = 32768

// maxLayers is more than there are: the rate of the last would be 2^-64 of the
// asked one.
const maxLayers = 64

// ErrAtCapacity says that a Scalable holds as many keys as it was made for, and may
// not grow, or cannot any more.
var ErrAtCapacity = errors.New("filter is at its capacity")

// NewScalable returns an empty filter for capacity keys before it grows, which lets pass
// less than fpr of absent keys however far it does.
func NewScalable(capacity uint64, fpr float64, o ScalableOptions) (*Scalable, error) {
	if o.Expansion == 0 {
		o.Expansion = 2
	}
	switch {
	case capacity == 0:
		return nil, errors.New("bloom: new scalable filter: a capacity of 0")
	case !(fpr > 0 && fpr < 1):
		return nil, fmt.Errorf("bloom: new scalable filter: a rate of %v, not between 0 and 1", fpr)
	case o.Expansion < 1 || o.Expansion > MaxExpansion:
		return nil, fmt.Errorf("bloom: new scalable filter: Expansion is %d, not 1 to %d", o.Expansion, MaxExpansion)
	}
	hash, err := (&FilterOptions{Hasher: o.Hasher, Hash: o.Hash, HashID: o.HashID}).hash128()
	if err != nil {
		return nil, err
	}
	s := &Scalable{hash: hash, rate: fpr, expansion: uint32(o.Expansion), nonScaling: o.NonScaling}
	if err := s.grow(capacity); err != nil {
		return nil, err
	}
	return s, nil
}

// grow adds a layer.
func (s *Scalable) grow(capacity uint64) error {
	if len(s.layers) == maxLayers {
		return fmt.Errorf("bloom: scalable filter: %w: %d layers", ErrAtCapacity, maxLayers)
	}
	f, err := NewFilter(FilterOptions{Keys: capacity, FPR: s.layerRate(len(s.layers))})
	if err != nil {
		return fmt.Errorf("bloom: scalable filter: %w: %w", ErrAtCapacity, err)
	}
	f.hash = s.hash
	s.layers = append(s.layers, layer{Filter: *f, capacity: capacity})
	return nil
}

// layerRate is that of layer i: r/2, r/4, ..., which sum up to less than r.
func (s *Scalable) layerRate(i int) float64 {
	if s.nonScaling {
		return s.rate
	}
	return math.Max(math.Ldexp(s.rate, -1-i), leastRate)
}

// Add adds key and reports whether it is new: certainly was not there. One that may
// have been there already is not added again and takes no room. When the filter is
// full it grows, which allocates; if it is NonScaling, or has grown as far as it can,
// the error is ErrAtCapacity and a new key is not added.
func (s *Scalable) Add(key []byte) (added bool, err error) {
	h1, h2 := s.hash.of(key)
	return s.AddHash(h1, h2)
}

// AddString adds s: see Add.
func (s *Scalable) AddString(key string) (added bool, err error) {
	h1, h2 := s.hash.of([]byte(key))
	return s.AddHash(h1, h2)
}

// Hash returns what the filter's hash function gives for key, for AddHash and
// HasHash.
func (s *Scalable) Hash(key []byte) (h1, h2 uint64) { return s.hash.of(key) }

// AddHash is Add of the key with this hash (see Hash).
func (s *Scalable) AddHash(h1, h2 uint64) (added bool, err error) {
	if len(s.layers) == 0 {
		return false, fmt.Errorf("bloom: scalable filter: %w: it was not made by NewScalable", ErrAtCapacity)
	}
	if s.HasHash(h1, h2) {
		return false, nil
	}
	last := &s.layers[len(s.layers)-1]
	if last.count >= last.capacity {
		if s.nonScaling {
			return false, fmt.Errorf("bloom: scalable filter: %w: %d keys", ErrAtCapacity, last.count)
		}
		if err := s.grow(whole(float64(last.capacity) * float64(s.expansion))); err != nil {
			return false, err
		}
		last = &s.layers[len(s.layers)-1]
	}
	last.AddHash(h1, h2)
	return true, nil
}

// AddMany adds keys and reports of each what Add does. It ends with the first
// error: added is as long as the keys that were added or there.
func (s *Scalable) AddMany(keys ...[]byte) (added []bool, err error) {
	added = make([]bool, 0, len(keys))
	for _, key := range keys {
		isNew, err := s.Add(key)
		if err != nil {
			return added, err
		}
		added = append(added, isNew)
	}
	return added, nil
}

// Has tells whether key may have been added. False is certain. It hashes once
// for all layers, asks the newest and largest first, and allocates nothing.
func (s *Scalable) Has(key []byte) bool { return s.HasHash(s.hash.of(key)) }

// HasString is Has of the bytes of key.
func (s *Scalable) HasString(key string) bool { return s.HasHash(s.hash.of([]byte(key))) }

// MayContain is Has.
func (s *Scalable) MayContain(key []byte) bool { return s.HasHash(s.hash.of(key)) }

// HasHash is Has of the key with this hash (see Hash).
func (s *Scalable) HasHash(h1, h2 uint64) bool {
	for i := len(s.layers) - 1; i >= 0; i-- {
		if s.layers[i].MayContainHash(h1, h2) {
			return true
		}
	}
	return len(s.layers) == 0
}

// HasMany answers Has of each key.
func (s *Scalable) HasMany(keys ...[]byte) []bool {
	has := make([]bool, len(keys))
	for i, key := range keys {
		has[i] = s.Has(key)
	}
	return has
}

// ScalableInfo is what BF.INFO tells.
type ScalableInfo struct {
	Capacity  uint64 // keys that the layers are for
	SizeBytes int    // of their bits
	Filters   int    // layers
	Items     uint64 // keys that were added and were new
	Expansion int    // 0: NonScaling
}

// Info tells how large the filter is.
func (s *Scalable) Info() ScalableInfo {
	info := ScalableInfo{Filters: len(s.layers), Expansion: int(s.expansion)}
	if s.nonScaling {
		info.Expansion = 0
	}
	for i := range s.layers {
		l := &s.layers[i]
		info.Capacity += l.capacity
		info.SizeBytes += l.SizeBytes()
		info.Items += l.count
	}
	return info
}

// Count returns how many keys were added and were new. Keys that passed
// falsely when they came are missing in it.
func (s *Scalable) Count() uint64 { return s.Info().Items }

// FPR returns the share of absent keys that pass with the bits that are set now. It
// counts bits: see Filter.FillRatio.
func (s *Scalable) FPR() float64 {
	if len(s.layers) == 0 {
		return 1
	}
	denied := 1.0
	for i := range s.layers {
		denied *= 1 - s.layers[i].FPR()
	}
	return 1 - denied
}

// Reset takes out all keys and all layers but the first.
func (s *Scalable) Reset() {
	if len(s.layers) > 0 {
		clear(s.layers[1:])
		s.layers = s.layers[:1]
		s.layers[0].Reset()
	}
}

// Clone returns a copy that shares nothing with s that changes.
func (s *Scalable) Clone() *Scalable {
	c := *s
	c.layers = make([]layer, len(s.layers))
	for i := range s.layers {
		c.layers[i] = layer{Filter: *s.layers[i].Clone(), capacity: s.layers[i].capacity}
	}
	return &c
}

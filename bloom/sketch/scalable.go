package sketch

import (
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/bitarray"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Scalable is a Bloom filter for an unknown number of keys. When it is full it gets another
// layer: a Filter that is twice as large and has half the rate. So the rates of all layers
// together stay below the rate that was asked for. It works by the same rules as
// RedisBloom: [NewScalable] is BF.RESERVE, CheckAndAdd is BF.ADD, MayContain and MayContainKeys
// are BF.EXISTS and BF.MEXISTS, Info is BF.INFO.
//
// The price is memory and time. The first layer has half the rate that was asked for, and
// each further layer half the rate of the one before. At 1 % a key has 11 bits in the first
// layer, 12.5 in the second, and 15.4 in the fourth. A question for an absent key asks
// every layer: 16 ns with one layer, 36 with four. Add asks first, and takes 92 ns on the
// way to a million keys, growth included. If 1 % is asked for, 0.50 % pass before the first
// growth, 0.93 % after three, and 0.98 % after five, with 16.9 bits a key. If the number of
// keys is known within a factor of two, a Filter is the better choice.
//
// Any number of goroutines may ask a Scalable at once, as long as none changes it. The zero
// Scalable answers maybe to every key, takes none ([ErrAtCapacity]), and cannot be written.
// It is for UnmarshalBinary and UnmarshalText.
type Scalable struct {
	layers     []layer // at least one; the newest is the last
	hash       bloom.HashFunc
	rate       float64 // the rate that was asked for
	expansion  uint32  // at least 1
	nonScaling bool
}

// A layer is the bits of one Filter. It takes at most capacity keys.
type layer struct {
	bitarray.Array
	capacity uint64
}

// ScalableOptions are the options of [NewScalable]. All of them have defaults.
type ScalableOptions struct {
	// Capacity is how many keys the filter takes before it grows. The default is
	// DefaultCapacity.
	Capacity uint64

	// FPR is the rate of false positives that the filter stays below, however far it grows.
	// It is above 0 and below 1. The default is bloom.DefaultFPR.
	FPR float64

	// Expansion is the factor by which a layer is larger than the one before, RedisBloom's
	// EXPANSION. With 1 all layers have the same size, and there soon are many. The default
	// is 2, the largest value is MaxExpansion.
	Expansion int

	// NonScaling allows one layer only, which has the rate that is asked for. When it is
	// full, Add returns ErrAtCapacity.
	NonScaling bool

	// Hasher, Hash and HashID choose the hash function: see FilterOptions.
	Hasher bloom.Hasher
	Hash   bloom.Hash128
	HashID bloom.HashID
}

// MaxExpansion is the largest [ScalableOptions.Expansion], as in RedisBloom.
const MaxExpansion = 32768

// maxFilterBits is the size of the largest layer.
const maxFilterBits = 8 * form.MaxBytes

// leastRate is the lowest rate of a layer: math.Log is not exact below.
const leastRate = 0x1p-1022

// maxLayers is the largest number of layers. The rate of the last would be 2^-64 of
// the rate that was asked for.
const maxLayers = 64

// ErrAtCapacity says that a Scalable holds as many keys as it was made for and may not
// grow, or that it cannot grow any more.
var ErrAtCapacity = errors.New("filter is at its capacity")

// DefaultCapacity is the capacity of a Scalable for which none is set.
const DefaultCapacity = 1000

// NewScalable returns an empty filter. Its error names the option that is wrong.
func NewScalable(o ScalableOptions) (*Scalable, error) {
	if o.Capacity == 0 {
		o.Capacity = DefaultCapacity
	}
	if o.FPR == 0 {
		o.FPR = bloom.DefaultFPR
	}
	if o.Expansion == 0 {
		o.Expansion = 2
	}
	switch {
	case !(o.FPR > 0 && o.FPR < 1):
		return nil, fmt.Errorf("bloom: new scalable filter: FPR is %v, not between 0 and 1", o.FPR)
	case o.Expansion < 1 || o.Expansion > MaxExpansion:
		return nil, fmt.Errorf("bloom: new scalable filter: Expansion is %d, not 1 to %d", o.Expansion, MaxExpansion)
	}
	hash, err := bloom.NewHashFunc(o.Hasher, o.Hash, o.HashID)
	if err != nil {
		return nil, err
	}
	s := &Scalable{hash: hash, rate: o.FPR, expansion: uint32(o.Expansion), nonScaling: o.NonScaling}
	if err := s.grow(o.Capacity); err != nil {
		return nil, err
	}
	return s, nil
}

// grow adds a layer for capacity keys. The error is ErrAtCapacity if there is no
// such layer.
func (s *Scalable) grow(capacity uint64) error {
	if len(s.layers) == maxLayers {
		return fmt.Errorf("bloom: scalable filter: %w: %d layers", ErrAtCapacity, maxLayers)
	}
	rate := s.layerRate(len(s.layers))
	k := min(bloom.SizeProbesFPR(rate), bloom.MaxProbes)
	m := bloom.SizeBitsProbes(capacity, rate, k)
	if m > maxFilterBits {
		return fmt.Errorf("bloom: scalable filter: %w: %d bits are more than %d", ErrAtCapacity, m, uint64(maxFilterBits))
	}
	s.layers = append(s.layers, layer{Array: bitarray.Make(m, k), capacity: capacity})
	return nil
}

// layerRate returns the rate of layer i: r/2, r/4 and so on, which sum up to less than r.
func (s *Scalable) layerRate(i int) float64 {
	if s.nonScaling {
		return s.rate
	}
	return math.Max(math.Ldexp(s.rate, -1-i), leastRate)
}

// Hash returns the hash of key by the filter's function, for AddHash, MayContainHash and
// CheckAndAddHash.
func (s *Scalable) Hash(key []byte) (h1, h2 uint64) { return s.hash.Hash128(key) }

// AddHash is Add for the key with this hash (see Hash).
func (s *Scalable) AddHash(h1, h2 uint64) error {
	_, err := s.CheckAndAddHash(h1, h2)
	return err
}

// CheckAndAddHash is CheckAndAdd for the key with this hash (see Hash).
func (s *Scalable) CheckAndAddHash(h1, h2 uint64) (maybe bool, err error) {
	if len(s.layers) == 0 {
		return true, fmt.Errorf("bloom: scalable filter: %w: it was not made by NewScalable", ErrAtCapacity)
	}
	if s.MayContainHash(h1, h2) {
		return true, nil
	}
	last := &s.layers[len(s.layers)-1]
	if last.Count >= last.capacity {
		if s.nonScaling {
			return false, fmt.Errorf("bloom: scalable filter: %w: %d keys", ErrAtCapacity, last.Count)
		}
		if err := s.grow(form.Whole(float64(last.capacity) * float64(s.expansion))); err != nil {
			return false, err
		}
		last = &s.layers[len(s.layers)-1]
	}
	last.Add(h1, h2)
	return false, nil
}

// MayContainHash is MayContain for the key with this hash (see Hash). It asks the newest
// layer first, which is the largest.
func (s *Scalable) MayContainHash(h1, h2 uint64) bool {
	for i := len(s.layers) - 1; i >= 0; i-- {
		if s.layers[i].Has(h1, h2) {
			return true
		}
	}
	return len(s.layers) == 0
}

// ScalableInfo is what Info returns, and what BF.INFO of RedisBloom reports.
type ScalableInfo struct {
	Capacity  uint64 // number of keys that the layers are for
	SizeBytes int    // of the layers' bits
	Filters   int    // number of layers
	Items     uint64 // number of keys that were added and were new
	Expansion int    // 0 if NonScaling
}

// Info returns the size of the filter and the number of its keys.
func (s *Scalable) Info() ScalableInfo {
	info := ScalableInfo{Filters: len(s.layers), Expansion: int(s.expansion)}
	if s.nonScaling {
		info.Expansion = 0
	}
	for i := range s.layers {
		l := &s.layers[i]
		info.Capacity += l.capacity
		info.SizeBytes += l.SizeBytes()
		info.Items += l.Count
	}
	return info
}

// Count returns how many keys were added and were new. It does not include new keys for
// which the filter gave a false positive when they were added.
func (s *Scalable) Count() uint64 { return s.Info().Items }

// SizeBytes returns the memory that the bits of all layers take.
func (s *Scalable) SizeBytes() int { return s.Info().SizeBytes }

// FPR returns the share of absent keys that pass with the bits that are set at the moment.
// It counts bits: see Filter.FillRatio.
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

// Reset removes all keys, and all layers but the first.
func (s *Scalable) Reset() {
	if len(s.layers) > 0 {
		clear(s.layers[1:])
		s.layers = s.layers[:1]
		s.layers[0].Reset()
	}
}

// Clone returns a copy. Changes of one do not change the other.
func (s *Scalable) Clone() *Scalable {
	c := *s
	c.layers = make([]layer, len(s.layers))
	for i := range s.layers {
		c.layers[i] = layer{Array: s.layers[i].Clone(), capacity: s.layers[i].capacity}
	}
	return &c
}

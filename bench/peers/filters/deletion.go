package main

import (
	"fmt"
	"math"

	cuckoo "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom/sketch"
)

func removers() []contestant {
	return []contestant{
		{removal, "shale Counting", "NewCounting for 1 %, bloom.Hash (murmur3)", false, func(n int) (filter, error) {
			f, err := sketch.NewCounting(sketch.CountingOptions{Keys: uint64(n), FPR: rate})
			return &shaleCounting{f}, err
		}},
		{removal, "shale Cuckoo", "NewCuckoo: fingerprints of 12 bits, the default; 8 would have 3 %", false, func(n int) (filter, error) {
			f, err := sketch.NewCuckoo(sketch.CuckooOptions{Keys: uint64(n)})
			return &shaleCuckoo{f}, err
		}},
		{removal, "shale Cuckoo, 8 bits", "NewCuckoo: fingerprints of 8 bits, which is what the peer has", false, func(n int) (filter, error) {
			f, err := sketch.NewCuckoo(sketch.CuckooOptions{Keys: uint64(n), FingerprintBits: 8})
			return &shaleCuckoo{f}, err
		}},
		{removal, "BoomFilters Counting", "NewDefaultCountingBloomFilter for 1 %: counters of 4 bits; its own fnv", false, func(n int) (filter, error) {
			return &boomCounting{n, boom.NewDefaultCountingBloomFilter(uint(n), rate)}, nil
		}},
		{removal, "seiflotfy cuckoo", "NewFilter for the keys: fingerprints of 8 bits, which is all it has, and the power of two of them that is at most 96 % full; its own metro", false, func(n int) (filter, error) {
			return &seiflotfy{n, cuckoo.NewFilter(uint(slotsFor(n)))}, nil
		}},
	}
}

type boomCounting struct {
	n int
	f *boom.CountingBloomFilter
}

func (f *boomCounting) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Add(k.Key(i))
	}
	return nil
}

func (f *boomCounting) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Test(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *boomCounting) remove(k keys.Slab) error {
	for i := range k.Len() {
		if !f.f.TestAndRemove(k.Key(i)) {
			return errDenied(k.Key(i))
		}
	}
	return nil
}

func (f *boomCounting) bits() float64 { return float64(f.f.Capacity()) * 4 }

func (f *boomCounting) theory() float64 {
	return classicRate(f.n, float64(f.f.Capacity()), float64(f.f.K()))
}

// errDenied says that a filter did not know a key that it has.
func errDenied(key []byte) error {
	return fmt.Errorf("denies %q, which is there, when asked to remove it", key)
}

type seiflotfy struct {
	n int
	f *cuckoo.Filter
}

func (f *seiflotfy) add(k keys.Slab) error {
	for i := range k.Len() {
		if !f.f.Insert(k.Key(i)) {
			return errFull
		}
	}
	return nil
}

func (f *seiflotfy) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Lookup(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *seiflotfy) remove(k keys.Slab) error {
	for i := range k.Len() {
		if !f.f.Delete(k.Key(i)) {
			return errDenied(k.Key(i))
		}
	}
	return nil
}

// slotsFor is how many fingerprints there is room for: the power of two that the
// library makes of the number of keys, or the next one where the keys would fill
// it so far that it refuses some.
func slotsFor(n int) float64 { return math.Exp2(math.Ceil(math.Log2(float64(n) / 0.96))) }

func (f *seiflotfy) bits() float64 { return slotsFor(f.n) * 8 }

// theory: two buckets of four slots, each taken with the chance of the load, by
// one of 255 fingerprints.
func (f *seiflotfy) theory() float64 {
	return -math.Expm1(8 * math.Log1p(-float64(f.n)/slotsFor(f.n)/255))
}

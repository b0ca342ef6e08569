package main

import (
	"math"

	cuckoo "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom/sketch"
)

func scalers() []contestant {
	return []contestant{
		{unsized, "shale Scalable", "NewScalable for 1 %, each part twice the one before, Murmur3; Add also tells whether the key was new", false, func(n int) (filter, error) {
			f, err := sketch.NewScalable(sketch.ScalableOptions{Capacity: uint64(max(1, n/beginning)), FPR: rate})
			return &shaleScalable{f}, err
		}},
		{unsized, "shale Scalable, xxh3", "the same, HashXXH3", false, func(n int) (filter, error) {
			f, err := sketch.NewScalable(sketch.ScalableOptions{Capacity: uint64(max(1, n/beginning)), FPR: rate, Hasher: xxh3()})
			return &shaleScalable{f}, err
		}},
		{unsized, "BoomFilters Scalable", "NewScalableBloomFilter, ratio 0.8, the first part for 0.2 %, so that all together have 1 %; parts as large as the first; its own fnv", false, func(n int) (filter, error) {
			return &boomScalable{boom.NewScalableBloomFilter(uint(max(1, n/beginning)), rate*(1-boomRatio), boomRatio)}, nil
		}},
		{unsized, "seiflotfy Scalable", "NewScalableCuckooFilter, which has no settings: begins with 10 000, 8-bit fingerprints; its own metro", false, func(int) (filter, error) {
			return &seiflotfyScalable{cuckoo.NewScalableCuckooFilter()}, nil
		}},
	}
}

// boomRatio is the rate of a part by that of the one before: the default.
const boomRatio = 0.8

type boomScalable struct{ f *boom.ScalableBloomFilter }

func (f *boomScalable) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Add(k.Key(i))
	}
	return nil
}

func (f *boomScalable) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Test(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *boomScalable) bits() float64 { return float64(f.f.Capacity()) }

// theory: the sum of the parts, all of them full.
func (f *boomScalable) theory() float64 { return rate * (1 - math.Pow(boomRatio, beginning)) }

type seiflotfyScalable struct{ f *cuckoo.ScalableCuckooFilter }

func (f *seiflotfyScalable) add(k keys.Slab) error {
	for i := range k.Len() {
		if !f.f.Insert(k.Key(i)) {
			return errFull
		}
	}
	return nil
}

func (f *seiflotfyScalable) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Lookup(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

// bits: the library does not tell but by its encoded form, which is as long as
// what it keeps and a few hundred bytes more.
func (f *seiflotfyScalable) bits() float64   { return float64(len(f.f.Encode())) * 8 }
func (f *seiflotfyScalable) theory() float64 { return unknown }

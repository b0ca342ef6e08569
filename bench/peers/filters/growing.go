package main

import (
	bits "github.com/bits-and-blooms/bloom/v3"
	"github.com/cespare/xxhash/v2"
	"github.com/greatroar/blobloom"
	holiman "github.com/holiman/bloomfilter/v2"

	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom"
)

// atomicOf returns a filter of package bloom for n keys.
func atomicOf(n int) *bloom.AtomicBlocked {
	return bloom.Must(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: uint64(n), BitsPerKey: bitsPerKey, Uncounted: true}))
}

func growers() []contestant {
	// 10 bits a key, and what blobloom finds best for them.
	blob := func(n int) blobloom.Config {
		return blobloom.Config{Capacity: uint64(n), FPRate: bestRate(bitsPerKey), MaxBits: uint64(n) * bitsPerKey}
	}
	return append([]contestant{
		{growing, "shale AtomicBlocked", "10 bits, Uncounted as the peers; bloom.Hash (murmur3)", true, func(n int) (filter, error) {
			return &shaleAtomic{n: n, f: atomicOf(n)}, nil
		}},
		{growing, "shale AtomicBlocked, xxh3", "10 bits, Uncounted as the peers; HashXXH3", true, func(n int) (filter, error) {
			return &shaleAtomicXXH3{shaleAtomic{n: n, f: atomicOf(n)}, xxh3()}, nil
		}},
		{growing, "shale Filter", "10 bits, Murmur3", false, func(n int) (filter, error) {
			f, err := bloom.NewFilter(bloom.FilterOptions{Keys: uint64(n), Bits: uint64(n) * bitsPerKey})
			return &shaleFilter{n, f}, err
		}},
		{growing, "shale Filter, xxh3", "10 bits, HashXXH3", false, func(n int) (filter, error) {
			f, err := bloom.NewFilter(bloom.FilterOptions{Keys: uint64(n), Bits: uint64(n) * bitsPerKey, Hasher: xxh3()})
			return &shaleFilter{n, f}, err
		}},
		{growing, "bits-and-blooms", "NewWithEstimates for the rate that 10 bits have: 7 probes; its own murmur3", false, func(n int) (filter, error) {
			return &bitsAndBlooms{n, bits.NewWithEstimates(uint(n), bestRate(bitsPerKey))}, nil
		}},
		{growing, "holiman", "NewOptimal for the rate that 10 bits have: 7 probes; AddHash and ContainsHash of xxhash; locks in each call", true, func(n int) (filter, error) {
			f, err := holiman.NewOptimal(uint64(n), bestRate(bitsPerKey))
			return &holimanFilter{n, f}, err
		}},
		{growing, "blobloom Filter", "Optimize of 10 bits; xxhash, as its examples have it", false, func(n int) (filter, error) {
			size, k := blobloom.Optimize(blob(n))
			return &blob1{n, k, blobloom.New(size, k)}, nil
		}},
		{growing, "blobloom SyncFilter", "the same, atomically", true, func(n int) (filter, error) {
			size, k := blobloom.Optimize(blob(n))
			return &blobSync{n, k, size, blobloom.NewSync(size, k)}, nil
		}},
	}, blocks()...)
}

type shaleAtomic struct {
	n int
	f *bloom.AtomicBlocked
}

func (f *shaleAtomic) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.AddHash(bloom.Hash(k.Key(i)))
	}
	return nil
}

func (f *shaleAtomic) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContainHash(bloom.Hash(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleAtomic) hash(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		hashes = append(hashes, bloom.Hash(k.Key(i)))
	}
	return hashes
}

func (f *shaleAtomic) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.AddHash(h)
	}
	return nil
}

func (f *shaleAtomic) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleAtomic) bits() float64 { return float64(f.f.SizeBytes()) * 8 }

// theory: six bits, two in each of three words of a line. There is no formula
// in the library; 1.00 % is what its documentation promises.
func (f *shaleAtomic) theory() float64 { return 0.0100 }

type bitsAndBlooms struct {
	n int
	f *bits.BloomFilter
}

func (f *bitsAndBlooms) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Add(k.Key(i))
	}
	return nil
}

func (f *bitsAndBlooms) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Test(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *bitsAndBlooms) bits() float64 { return float64(f.f.Cap()) }

func (f *bitsAndBlooms) theory() float64 {
	return classicRate(f.n, float64(f.f.Cap()), float64(f.f.K()))
}

type holimanFilter struct {
	n int
	f *holiman.Filter
}

func (f *holimanFilter) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.AddHash(xxhash.Sum64(k.Key(i)))
	}
	return nil
}

func (f *holimanFilter) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.ContainsHash(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *holimanFilter) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (f *holimanFilter) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.AddHash(h)
	}
	return nil
}

func (f *holimanFilter) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.ContainsHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *holimanFilter) bits() float64 { return float64(f.f.M()) }

func (f *holimanFilter) theory() float64 {
	return classicRate(f.n, float64(f.f.M()), float64(f.f.K()))
}

type blob1 struct {
	n, k int
	f    *blobloom.Filter
}

func (f *blob1) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Add(xxhash.Sum64(k.Key(i)))
	}
	return nil
}

func (f *blob1) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Has(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *blob1) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (f *blob1) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.Add(h)
	}
	return nil
}

func (f *blob1) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.Has(h) {
			maybe++
		}
	}
	return maybe
}

func (f *blob1) bits() float64   { return float64(f.f.NumBits()) }
func (f *blob1) theory() float64 { return blobRate(f.n, f.f.NumBits(), f.k) }

// blobRate is blobloom's own formula. Of the k that it is told, its loops make
// one probe fewer: the first hash chooses the block.
func blobRate(n int, size uint64, k int) float64 { return blobloom.FPRate(uint64(n), size, k-1) }

type blobSync struct {
	n, k int
	size uint64
	f    *blobloom.SyncFilter
}

func (f *blobSync) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Add(xxhash.Sum64(k.Key(i)))
	}
	return nil
}

func (f *blobSync) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Has(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *blobSync) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (f *blobSync) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.Add(h)
	}
	return nil
}

func (f *blobSync) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.Has(h) {
			maybe++
		}
	}
	return maybe
}

func (f *blobSync) bits() float64   { return float64(f.size) }
func (f *blobSync) theory() float64 { return blobRate(f.n, f.size, f.k) }

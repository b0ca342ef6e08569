package main

import (
	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/sketch"
)

// xxh3 is the fastest hash function of shale's, with a seed.
func xxh3() bloom.Hasher {
	h, err := bloom.NewHasher(bloom.HashXXH3, 1)
	if err != nil {
		panic(err) // the library is built with it
	}
	return h
}

// shaleAtomicXXH3 is the same filter, of other hashes.
type shaleAtomicXXH3 struct {
	shaleAtomic
	hasher bloom.Hasher
}

func (f *shaleAtomicXXH3) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.AddHash(f.hasher.Hash(k.Key(i)))
	}
	return nil
}

func (f *shaleAtomicXXH3) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContainHash(f.hasher.Hash(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleAtomicXXH3) hash(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		hashes = append(hashes, f.hasher.Hash(k.Key(i)))
	}
	return hashes
}

type shaleFilter struct {
	n int
	f *bloom.Filter
}

func (f *shaleFilter) add(k keys.Slab) error {
	for i := range k.Len() {
		if err := f.f.Add(k.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleFilter) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContain(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

// hash makes two words of each key.
func (f *shaleFilter) hash(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		h1, h2 := f.f.Hash(k.Key(i))
		hashes = append(hashes, h1, h2)
	}
	return hashes
}

func (f *shaleFilter) addHashes(h []uint64) error {
	for ; len(h) >= 2; h = h[2:] {
		f.f.AddHash(h[0], h[1])
	}
	return nil
}

func (f *shaleFilter) askHashes(h []uint64) (maybe int) {
	for ; len(h) >= 2; h = h[2:] {
		if f.f.MayContainHash(h[0], h[1]) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleFilter) bits() float64 { return float64(f.f.Cap()) }

func (f *shaleFilter) theory() float64 {
	return classicRate(f.n, float64(f.f.Cap()), float64(f.f.K()))
}

type shaleCounting struct{ f *sketch.Counting }

func (f *shaleCounting) add(k keys.Slab) error {
	for i := range k.Len() {
		if err := f.f.Add(k.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleCounting) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContain(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleCounting) remove(k keys.Slab) error {
	for i := range k.Len() {
		if !f.f.Remove(k.Key(i)) {
			return errDenied(k.Key(i))
		}
	}
	return nil
}

func (f *shaleCounting) hash(k keys.Slab, hashes []uint64) []uint64 {
	hasher := f.f.Hasher()
	for i := range k.Len() {
		hashes = append(hashes, hasher.Hash(k.Key(i)))
	}
	return hashes
}

func (f *shaleCounting) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.AddHash(h)
	}
	return nil
}

func (f *shaleCounting) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleCounting) bits() float64   { return float64(f.f.SizeBytes()) * 8 }
func (f *shaleCounting) theory() float64 { return f.f.FPR() }

type shaleCuckoo struct{ f *sketch.Cuckoo }

func (f *shaleCuckoo) add(k keys.Slab) error {
	for i := range k.Len() {
		if err := f.f.Add(k.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleCuckoo) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContain(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleCuckoo) remove(k keys.Slab) error {
	for i := range k.Len() {
		if !f.f.Remove(k.Key(i)) {
			return errDenied(k.Key(i))
		}
	}
	return nil
}

func (f *shaleCuckoo) hash(k keys.Slab, hashes []uint64) []uint64 {
	hasher := f.f.Hasher()
	for i := range k.Len() {
		hashes = append(hashes, hasher.Hash(k.Key(i)))
	}
	return hashes
}

func (f *shaleCuckoo) addHashes(h []uint64) error {
	for _, h := range h {
		if err := f.f.AddHash(h); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleCuckoo) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleCuckoo) bits() float64   { return float64(f.f.SizeBytes()) * 8 }
func (f *shaleCuckoo) theory() float64 { return f.f.FPR() }

type shaleScalable struct{ f *sketch.Scalable }

func (f *shaleScalable) add(k keys.Slab) error {
	for i := range k.Len() {
		if err := f.f.Add(k.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleScalable) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContain(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

// hash makes two words of each key.
func (f *shaleScalable) hash(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		h1, h2 := f.f.Hash(k.Key(i))
		hashes = append(hashes, h1, h2)
	}
	return hashes
}

func (f *shaleScalable) addHashes(h []uint64) error {
	for ; len(h) >= 2; h = h[2:] {
		if err := f.f.AddHash(h[0], h[1]); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleScalable) askHashes(h []uint64) (maybe int) {
	for ; len(h) >= 2; h = h[2:] {
		if f.f.MayContainHash(h[0], h[1]) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleScalable) bits() float64   { return float64(f.f.Info().SizeBytes) * 8 }
func (f *shaleScalable) theory() float64 { return f.f.FPR() }

package main

import (
	"slices"

	"github.com/FastFilter/xorfilter"
	"github.com/cespare/xxhash/v2"

	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom"
)

func statics() []contestant {
	ours, theirs := new(bloom.StaticBuilder), new(xorfilter.BinaryFuseBuilder)
	return []contestant{
		{static, "shale Blocked", "AppendBlocked of 10 bits, bloom.Hash (murmur3)", true, func(n int) (filter, error) {
			return &shaleBlocked{hashes: make([]uint64, 0, n)}, nil
		}},
		{static, "shale Blocked, xxh3", "AppendStatic of 10 bits, HashXXH3", true, func(n int) (filter, error) {
			return &shaleStatic{kind: bloom.KindBlocked, hasher: xxh3(), hashes: make([]uint64, 0, n)}, nil
		}},
		{static, "shale Fuse", "OpenFuse; bloom.Hash (murmur3); the widest fingerprints that fit 10 bits", true, func(n int) (filter, error) {
			return &shaleFuse{shaleBlocked: shaleBlocked{hashes: make([]uint64, 0, n)}}, nil
		}},
		{static, "shale Fuse, xxh3", "AppendStatic of KindFuse, the widest fingerprints that fit 10 bits, HashXXH3", true, func(n int) (filter, error) {
			return &shaleStatic{kind: bloom.KindFuse, hasher: xxh3(), hashes: make([]uint64, 0, n)}, nil
		}},
		{static, "xorfilter BinaryFuse8", "PopulateBinaryFuse8; xxhash, as it has no hash of its own", true, func(n int) (filter, error) {
			return &xorFuse{pending: make(pending, 0, n)}, nil
		}},
		{static, "shale Fuse, xxh3, StaticBuilder", "the same, built in the memory of the filter before", true, func(n int) (filter, error) {
			return &shaleStatic{kind: bloom.KindFuse, hasher: xxh3(), hashes: make([]uint64, 0, n), builder: ours}, nil
		}},
		{static, "xorfilter BinaryFuse8, builder", "BuildBinaryFuse in the memory of the filter before; xxhash", true, func(n int) (filter, error) {
			return &xorFuse{pending: make(pending, 0, n), builder: theirs}, nil
		}},
		{static, "xorfilter Xor8", "Populate; xxhash", true, func(n int) (filter, error) {
			return &xor8{pending: make(pending, 0, n)}, nil
		}},
	}
}

type shaleBlocked struct {
	hashes []uint64
	f      *bloom.Blocked
}

func (f *shaleBlocked) add(k keys.Slab) error {
	f.hashes = f.hash(k, f.hashes)
	return nil
}

func (f *shaleBlocked) build() (err error) {
	f.f, err = bloom.OpenBlocked(bloom.AppendBlocked(nil, f.hashes, bitsPerKey))
	f.hashes = nil
	return err
}

func (f *shaleBlocked) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContainHash(bloom.Hash(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleBlocked) hash(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		hashes = append(hashes, bloom.Hash(k.Key(i)))
	}
	return hashes
}

func (f *shaleBlocked) addHashes(h []uint64) error {
	f.hashes = append(f.hashes, h...)
	return nil
}

func (f *shaleBlocked) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleBlocked) bits() float64   { return float64(f.f.SizeBytes()) * 8 }
func (f *shaleBlocked) theory() float64 { return f.f.FPR() }

type shaleFuse struct {
	shaleBlocked
	f *bloom.Fuse
}

func (f *shaleFuse) build() error {
	b, err := bloom.AppendStatic(nil, f.hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: bitsPerKey})
	if err != nil {
		return err
	}
	f.f, err = bloom.OpenFuse(b)
	f.hashes = nil
	return err
}

func (f *shaleFuse) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContain(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleFuse) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleFuse) bits() float64   { return float64(f.f.SizeBytes()) * 8 }
func (f *shaleFuse) theory() float64 { return f.f.FPR() }

type shaleStatic struct {
	kind    bloom.Kind
	hasher  bloom.Hasher
	hashes  []uint64
	builder *bloom.StaticBuilder // nil: a new one
	f       *bloom.Static
}

func (f *shaleStatic) add(k keys.Slab) error {
	f.hashes = f.hash(k, f.hashes)
	return nil
}

func (f *shaleStatic) build() error {
	if f.builder == nil {
		f.builder = new(bloom.StaticBuilder)
	}
	b, err := f.builder.Append(nil, f.hashes, bloom.StaticOptions{Kind: f.kind, BitsPerKey: bitsPerKey, Hasher: f.hasher})
	if err != nil {
		return err
	}
	f.f, err = bloom.OpenStatic(b)
	f.hashes = nil
	return err
}

func (f *shaleStatic) ask(k keys.Slab) (maybe int) {
	hasher := f.f.Hasher()
	for i := range k.Len() {
		if f.f.MayContainHash(hasher.Hash(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleStatic) hash(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		hashes = append(hashes, f.hasher.Hash(k.Key(i)))
	}
	return hashes
}

func (f *shaleStatic) addHashes(h []uint64) error {
	f.hashes = append(f.hashes, h...)
	return nil
}

func (f *shaleStatic) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleStatic) bits() float64   { return float64(f.f.SizeBytes()) * 8 }
func (f *shaleStatic) theory() float64 { return f.f.FPR() }

// pending are the hashes of a static peer that is not built yet.
type pending []uint64

func (p *pending) add(k keys.Slab) error {
	*p = p.hash(k, *p)
	return nil
}

func (p *pending) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (p *pending) addHashes(h []uint64) error {
	*p = append(*p, h...)
	return nil
}

// xxHashes appends the hashes for libraries that take those of any function.
func xxHashes(k keys.Slab, hashes []uint64) []uint64 {
	for i := range k.Len() {
		hashes = append(hashes, xxhash.Sum64(k.Key(i)))
	}
	return hashes
}

type xorFuse struct {
	pending
	builder *xorfilter.BinaryFuseBuilder // nil: a new one
	f       *xorfilter.BinaryFuse8
}

func (f *xorFuse) build() (err error) {
	if f.builder == nil {
		f.f, err = xorfilter.PopulateBinaryFuse8(f.pending)
	} else {
		var made xorfilter.BinaryFuse[uint8]
		made, err = xorfilter.BuildBinaryFuse[uint8](f.builder, f.pending)
		made.Fingerprints = slices.Clone(made.Fingerprints)
		f.f = (*xorfilter.BinaryFuse8)(&made)
	}
	f.pending = nil
	return err
}

func (f *xorFuse) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Contains(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *xorFuse) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.Contains(h) {
			maybe++
		}
	}
	return maybe
}

func (f *xorFuse) bits() float64   { return float64(len(f.f.Fingerprints)) * 8 }
func (f *xorFuse) theory() float64 { return 1. / 256 }

type xor8 struct {
	pending
	f *xorfilter.Xor8
}

func (f *xor8) build() (err error) {
	f.f, err = xorfilter.Populate(f.pending)
	f.pending = nil
	return err
}

func (f *xor8) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Contains(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *xor8) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.Contains(h) {
			maybe++
		}
	}
	return maybe
}

func (f *xor8) bits() float64   { return float64(len(f.f.Fingerprints)) * 8 }
func (f *xor8) theory() float64 { return 1. / 256 }

package main

import (
	"math"

	"github.com/FastFilter/xorfilter"
	bits "github.com/bits-and-blooms/bloom/v3"
	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/ristretto/v2/z"
	"github.com/greatroar/blobloom"
	holiman "github.com/holiman/bloomfilter/v2"
	split "github.com/parquet-go/parquet-go/bloom"
	cuckoo "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"

	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/compat/parquet"
	"github.com/shaledb/shale/bloom/sketch"
)

// A contestant is a library with its settings.
type contestant struct {
	group, name string
	make        func(keys int) filter
}

// A filter is made of the calls that a user of the library would write.
type filter struct {
	add    func(keys.Slab) error // only collects the hashes if there is build
	build  func() error          // of a filter that is made of all keys at once
	ask    func(keys.Slab) (maybe int)
	remove func(keys.Slab) (removed int) // nil: it can't
	bits   func() float64                // of memory, in all
}

// The groups: what is in one can do the same.
const (
	static  = "static"       // built once of all keys
	growing = "growing"      // added to while it is asked
	removal = "deletion"     // keys can be taken out
	unsized = "unknown size" // it grows with the keys
)

// What is equal within the groups.
const (
	bitsPerKey = 10
	rate       = 0.01

	// beginning is which part of the keys a filter of unknown size begins with. One
	// that doubles then ends with room for 1.5 times the keys: 16 would be its worst
	// case, 1.94 times, and 15 its best.
	beginning = 10
)

// bestRate is what a classic filter of bitsPerKey is sized for.
var bestRate = math.Exp(-bitsPerKey * math.Ln2 * math.Ln2)

// each and count are inlined with what they are given, so that each library is called in
// a loop of its own: a call through a variable or an interface for each key would cost as
// much as the fastest filter.
func each(k keys.Slab, do func(key []byte)) error {
	for i := range k.Len() {
		do(k.Key(i))
	}
	return nil
}

func count(k keys.Slab, is func(key []byte) bool) (n int) {
	for i := range k.Len() {
		if is(k.Key(i)) {
			n++
		}
	}
	return n
}

// xxh3 is the fastest hash function of shale's, with a seed.
func xxh3() bloom.Hasher { return bloom.Must(bloom.NewHasher(bloom.HashXXH3, 1)) }

// contestants lists all, in the order of the table.
func contestants() []contestant {
	return []contestant{
		{static, "shale Blocked", func(n int) filter { return shaleStatic(n, bloom.KindBlocked, bloom.Hasher{}) }},
		{static, "shale Blocked, xxh3", func(n int) filter { return shaleStatic(n, bloom.KindBlocked, xxh3()) }},
		{static, "shale Fuse", func(n int) filter { return shaleStatic(n, bloom.KindFuse, bloom.Hasher{}) }},
		{static, "shale Fuse, xxh3", func(n int) filter { return shaleStatic(n, bloom.KindFuse, xxh3()) }},
		{static, "xorfilter BinaryFuse8", xorFuse},
		{growing, "shale AtomicBlocked", shaleAtomic},
		{growing, "shale Filter", func(n int) filter { return shaleFilter(n, bloom.Hasher{}) }},
		{growing, "shale Filter, xxh3", func(n int) filter { return shaleFilter(n, xxh3()) }},
		{growing, "shale parquet.Filter", shaleParquet},
		{growing, "bits-and-blooms", bitsAndBlooms},
		{growing, "holiman", holimanFilter},
		{growing, "blobloom", blobFilter},
		{growing, "parquet-go", parquetGo},
		{growing, "ristretto z.Bloom", ristretto},
		{removal, "shale Counting", shaleCounting},
		{removal, "shale Cuckoo, 8 bits", shaleCuckoo},
		{removal, "BoomFilters Counting", boomCounting},
		{removal, "seiflotfy cuckoo", seiflotfy},
		{unsized, "shale Scalable", shaleScalable},
		{unsized, "BoomFilters Scalable", boomScalable},
	}
}

func shaleStatic(n int, kind bloom.Kind, hasher bloom.Hasher) filter {
	hashes := make([]uint64, 0, n)
	var f *bloom.Static
	return filter{
		add: func(k keys.Slab) error {
			return each(k, func(key []byte) { hashes = append(hashes, hasher.Hash(key)) })
		},
		build: func() error {
			b, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: kind, BitsPerKey: bitsPerKey, Hasher: hasher})
			if err != nil {
				return err
			}
			f, err = bloom.OpenStatic(b)
			hashes = nil
			return err
		},
		ask: func(k keys.Slab) int {
			hasher, f := f.Hasher(), f
			return count(k, func(key []byte) bool { return f.MayContainHash(hasher.Hash(key)) })
		},
		bits: func() float64 { return float64(f.SizeBytes()) * 8 },
	}
}

func xorFuse(n int) filter {
	hashes := make([]uint64, 0, n)
	var f *xorfilter.BinaryFuse8
	return filter{
		add: func(k keys.Slab) error {
			return each(k, func(key []byte) { hashes = append(hashes, xxhash.Sum64(key)) })
		},
		build: func() (err error) {
			f, err = xorfilter.PopulateBinaryFuse8(hashes)
			hashes = nil
			return err
		},
		ask: func(k keys.Slab) int {
			f := f
			return count(k, func(key []byte) bool { return f.Contains(xxhash.Sum64(key)) })
		},
		bits: func() float64 { return float64(len(f.Fingerprints)) * 8 },
	}
}

func shaleAtomic(n int) filter {
	f := bloom.Must(bloom.NewAtomicBlocked(bloom.AtomicBlockedOptions{Keys: uint64(n), BitsPerKey: bitsPerKey, Uncounted: true}))
	return filter{
		add: func(k keys.Slab) error { return each(k, func(key []byte) { f.AddHash(bloom.Hash(key)) }) },
		ask: func(k keys.Slab) int {
			return count(k, func(key []byte) bool { return f.MayContainHash(bloom.Hash(key)) })
		},
		bits: func() float64 { return float64(f.SizeBytes()) * 8 },
	}
}

func shaleFilter(n int, hasher bloom.Hasher) filter {
	f := bloom.Must(bloom.NewFilter(bloom.FilterOptions{Keys: uint64(n), Bits: uint64(n) * bitsPerKey, Hasher: hasher}))
	return filter{
		add:  adding(func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Add(key) == nil }) }),
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.MayContain(key) }) },
		bits: func() float64 { return float64(f.Cap()) },
	}
}

// adding makes an error of a refused key.
func adding(add func(keys.Slab) (added int)) func(keys.Slab) error {
	return func(k keys.Slab) error {
		if add(k) < k.Len() {
			return errFull
		}
		return nil
	}
}

func shaleParquet(n int) filter {
	f := bloom.Must(parquet.NewBits(uint64(n), bitsPerKey))
	return filter{
		add:  adding(func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Add(key) == nil }) }),
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.MayContain(key) }) },
		bits: func() float64 { return float64(f.SizeBytes()) * 8 },
	}
}

func bitsAndBlooms(n int) filter {
	f := bits.NewWithEstimates(uint(n), bestRate)
	return filter{
		add:  func(k keys.Slab) error { return each(k, func(key []byte) { f.Add(key) }) },
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Test(key) }) },
		bits: func() float64 { return float64(f.Cap()) },
	}
}

func holimanFilter(n int) filter {
	f := bloom.Must(holiman.NewOptimal(uint64(n), bestRate))
	return filter{
		add: func(k keys.Slab) error { return each(k, func(key []byte) { f.AddHash(xxhash.Sum64(key)) }) },
		ask: func(k keys.Slab) int {
			return count(k, func(key []byte) bool { return f.ContainsHash(xxhash.Sum64(key)) })
		},
		bits: func() float64 { return float64(f.M()) },
	}
}

func blobFilter(n int) filter {
	f := blobloom.New(blobloom.Optimize(blobloom.Config{Capacity: uint64(n), FPRate: bestRate, MaxBits: uint64(n) * bitsPerKey}))
	return filter{
		add:  func(k keys.Slab) error { return each(k, func(key []byte) { f.Add(xxhash.Sum64(key)) }) },
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Has(xxhash.Sum64(key)) }) },
		bits: func() float64 { return float64(f.NumBits()) },
	}
}

func parquetGo(n int) filter {
	f := split.MakeSplitBlockFilter(make([]byte, split.BlockSize*split.NumSplitBlocksOf(int64(n), bitsPerKey)))
	return filter{
		add:  func(k keys.Slab) error { return each(k, func(key []byte) { f.Insert(xxhash.Sum64(key)) }) },
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Check(xxhash.Sum64(key)) }) },
		bits: func() float64 { return float64(len(f)) * split.BlockSize * 8 },
	}
}

func ristretto(n int) filter {
	f := z.NewBloomFilter(float64(n)*bitsPerKey, 7) // probes
	return filter{
		add:  func(k keys.Slab) error { return each(k, func(key []byte) { f.Add(xxhash.Sum64(key)) }) },
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Has(xxhash.Sum64(key)) }) },
		bits: func() float64 { return float64(f.TotalSize()-40) * 8 }, // its fields
	}
}

func shaleCounting(n int) filter {
	f := bloom.Must(sketch.NewCounting(sketch.CountingOptions{Keys: uint64(n), FPR: rate}))
	return filter{
		add:    adding(func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Add(key) == nil }) }),
		ask:    func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.MayContain(key) }) },
		remove: func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Remove(key) }) },
		bits:   func() float64 { return float64(f.SizeBytes()) * 8 },
	}
}

func shaleCuckoo(n int) filter {
	f := bloom.Must(sketch.NewCuckoo(sketch.CuckooOptions{Keys: uint64(n), FingerprintBits: 8}))
	return filter{
		add:    adding(func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Add(key) == nil }) }),
		ask:    func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.MayContain(key) }) },
		remove: func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Remove(key) }) },
		bits:   func() float64 { return float64(f.SizeBytes()) * 8 },
	}
}

func boomCounting(n int) filter {
	f := boom.NewDefaultCountingBloomFilter(uint(n), rate)
	return filter{
		add:    func(k keys.Slab) error { return each(k, func(key []byte) { f.Add(key) }) },
		ask:    func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Test(key) }) },
		remove: func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.TestAndRemove(key) }) },
		bits:   func() float64 { return float64(f.Capacity()) * 4 },
	}
}

func seiflotfy(n int) filter {
	// The library takes a power of two of fingerprints: the next one, if the keys would
	// fill it so far that it refuses some.
	slots := math.Exp2(math.Ceil(math.Log2(float64(n) / 0.96)))
	f := cuckoo.NewFilter(uint(slots))
	return filter{
		add:    adding(func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Insert(key) }) }),
		ask:    func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Lookup(key) }) },
		remove: func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Delete(key) }) },
		bits:   func() float64 { return slots * 8 },
	}
}

func shaleScalable(n int) filter {
	f := bloom.Must(sketch.NewScalable(sketch.ScalableOptions{Capacity: uint64(max(1, n/beginning)), FPR: rate}))
	return filter{
		add:  adding(func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Add(key) == nil }) }),
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.MayContain(key) }) },
		bits: func() float64 { return float64(f.Info().SizeBytes) * 8 },
	}
}

func boomScalable(n int) filter {
	const ratio = 0.8 // the rate of a part by that of the one before: the default. All together have 1 %.
	f := boom.NewScalableBloomFilter(uint(max(1, n/beginning)), rate*(1-ratio), ratio)
	return filter{
		add:  func(k keys.Slab) error { return each(k, func(key []byte) { f.Add(key) }) },
		ask:  func(k keys.Slab) int { return count(k, func(key []byte) bool { return f.Test(key) }) },
		bits: func() float64 { return float64(f.Capacity()) },
	}
}

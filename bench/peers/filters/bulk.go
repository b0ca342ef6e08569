package main

import (
	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/ristretto/v2/z"
	split "github.com/parquet-go/parquet-go/bloom"

	"github.com/shaledb/shale/bench/peers/internal/keys"
	"github.com/shaledb/shale/bloom/compat/parquet"
)

// A bulk filter takes many hashes in one call, to ask or to add.
type bulk interface {
	hashed
	// addMany adds hashes. A filter that is built of all at once has no such call: it returns nil.
	addMany() func(h []uint64)
	// askMany answers a batch. It is nil if there is no such call.
	askMany() func(h []uint64, out []bool)
}

// batch is how many hashes a call has.
const batch = 1024

// addInBatches adds the hashes, of words each.
func addInBatches(f bulk, h []uint64, words int) error {
	add := f.addMany()
	for len(h) > 0 {
		n := min(batch*words, len(h))
		add(h[:n])
		h = h[n:]
	}
	return nil
}

// askInBatches asks for the hashes and counts what may be there, as its caller would.
func askInBatches(f bulk, h []uint64, words int) (maybe int) {
	ask := f.askMany()
	var out [batch]bool
	for len(h) > 0 {
		n := min(batch*words, len(h))
		ask(h[:n], out[:n/words])
		for _, is := range out[:n/words] {
			if is {
				maybe++
			}
		}
		h = h[n:]
	}
	return maybe
}

// wordsOf is how many words a hash of f has.
func wordsOf(f filter) int {
	if _, classic := f.(*shaleFilter); classic {
		return 2
	}
	return 1
}

func (f *shaleBlocked) addMany() func(h []uint64)             { return nil }
func (f *shaleBlocked) askMany() func(h []uint64, out []bool) { return f.f.MayContainMany }

func (f *shaleFuse) askMany() func(h []uint64, out []bool) { return f.f.MayContainMany }

func (f *shaleStatic) addMany() func(h []uint64)             { return nil }
func (f *shaleStatic) askMany() func(h []uint64, out []bool) { return f.f.MayContainMany }

func (f *shaleAtomic) addMany() func(h []uint64)             { return f.f.AddMany }
func (f *shaleAtomic) askMany() func(h []uint64, out []bool) { return f.f.MayContainMany }

func (f *shaleFilter) addMany() func(h []uint64)             { return f.f.AddMany }
func (f *shaleFilter) askMany() func(h []uint64, out []bool) { return f.f.MayContainMany }

// blocks are split block filters, as Parquet has them, and one that rounds up to a power of two.
func blocks() []contestant {
	return []contestant{
		{growing, "shale parquet.Filter", "NewBits of 10 bits; xxhash, as Parquet prescribes", false, func(n int) (filter, error) {
			f, err := parquet.NewBits(uint64(n), bitsPerKey)
			return &shaleParquet{n, f}, err
		}},
		{growing, "parquet-go", "MakeSplitBlockFilter of NumSplitBlocksOf 10 bits; xxhash; Insert and Check, InsertBulk; it has no call for many questions", false, func(n int) (filter, error) {
			blocks := split.NumSplitBlocksOf(int64(n), bitsPerKey)
			return &parquetGo{n, split.MakeSplitBlockFilter(make([]byte, split.BlockSize*blocks))}, nil
		}},
		{growing, "ristretto z.Bloom", "NewBloomFilter of 10 bits and 7 probes, which it rounds up to a power of two of bits; xxhash, as it has no hash of its own", false, func(n int) (filter, error) {
			return &ristretto{n, z.NewBloomFilter(float64(n)*bitsPerKey, 7)}, nil
		}},
	}
}

type shaleParquet struct {
	n int
	f *parquet.Filter
}

func (f *shaleParquet) add(k keys.Slab) error {
	for i := range k.Len() {
		if err := f.f.Add(k.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

func (f *shaleParquet) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.MayContain(k.Key(i)) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleParquet) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (f *shaleParquet) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.AddHash(h)
	}
	return nil
}

func (f *shaleParquet) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.MayContainHash(h) {
			maybe++
		}
	}
	return maybe
}

func (f *shaleParquet) addMany() func(h []uint64)             { return f.f.AddMany }
func (f *shaleParquet) askMany() func(h []uint64, out []bool) { return f.f.MayContainMany }

func (f *shaleParquet) bits() float64   { return float64(f.f.SizeBytes()) * 8 }
func (f *shaleParquet) theory() float64 { return unknown }

type parquetGo struct {
	n int
	f split.SplitBlockFilter
}

func (f *parquetGo) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Insert(xxhash.Sum64(k.Key(i)))
	}
	return nil
}

func (f *parquetGo) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Check(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *parquetGo) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (f *parquetGo) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.Insert(h)
	}
	return nil
}

func (f *parquetGo) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.Check(h) {
			maybe++
		}
	}
	return maybe
}

func (f *parquetGo) addMany() func(h []uint64)             { return f.f.InsertBulk }
func (f *parquetGo) askMany() func(h []uint64, out []bool) { return nil }

func (f *parquetGo) bits() float64   { return float64(len(f.f)) * split.BlockSize * 8 }
func (f *parquetGo) theory() float64 { return unknown }

type ristretto struct {
	n int
	f *z.Bloom
}

func (f *ristretto) add(k keys.Slab) error {
	for i := range k.Len() {
		f.f.Add(xxhash.Sum64(k.Key(i)))
	}
	return nil
}

func (f *ristretto) ask(k keys.Slab) (maybe int) {
	for i := range k.Len() {
		if f.f.Has(xxhash.Sum64(k.Key(i))) {
			maybe++
		}
	}
	return maybe
}

func (f *ristretto) hash(k keys.Slab, hashes []uint64) []uint64 { return xxHashes(k, hashes) }

func (f *ristretto) addHashes(h []uint64) error {
	for _, h := range h {
		f.f.Add(h)
	}
	return nil
}

func (f *ristretto) askHashes(h []uint64) (maybe int) {
	for _, h := range h {
		if f.f.Has(h) {
			maybe++
		}
	}
	return maybe
}

func (f *ristretto) bits() float64   { return float64(f.f.TotalSize()-40) * 8 } // its fields
func (f *ristretto) theory() float64 { return unknown }

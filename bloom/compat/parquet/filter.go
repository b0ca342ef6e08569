package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/shaledb/shale/bloom/internal/lines"
)

// ErrParameters says that there is no filter as it was asked for, or that two filters
// differ and cannot be merged.
var ErrParameters = errors.New("parameters of a filter")

const (
	// BlockBytes is the size of a block. Part of the format.
	BlockBytes = 32
	// MaxBytes is the largest filter that New makes, as Arrow and parquet-java do.
	MaxBytes = 128 << 20
)

// A block holds all bits of a value, one in each word.
type block = lines.Block

// A Filter is a split block Bloom filter. The zero value answers maybe to every value. It
// is for ReadFrom, UnmarshalBinary and UnmarshalText.
type Filter struct {
	blocks []block // less than 2^26
}

// New returns an empty filter for n distinct values at the false positive rate p. It has
// the size that Arrow chooses: a power of two, from 32 bytes to 128 MiB. The rate is higher
// if there are more than n values, or if the size had to be cut at 128 MiB.
func New(n uint64, p float64) (*Filter, error) {
	if !(p > 0 && p < 1) {
		return nil, fmt.Errorf("parquet: new filter: %w: rate %v is not between 0 and 1", ErrParameters, p)
	}
	m := -8 * float64(n) / math.Log(1-math.Pow(p, 1.0/8))
	// m is not a number, or infinite, if the rate cannot be distinguished from 0 or 1.
	need := uint64(8 * MaxBytes)
	if m >= 0 && m < 8*MaxBytes {
		need = uint64(max(m, 8*BlockBytes))
	}
	if need&(need-1) != 0 {
		need = 1 << bits.Len64(need)
	}
	return NewBytes(int(need / 8))
}

// NewBits returns an empty filter with bitsPerValue bits for each of n distinct values,
// rounded up to whole blocks, as parquet-go makes it.
func NewBits(n uint64, bitsPerValue uint) (*Filter, error) {
	hi, need := bits.Mul64(n, uint64(bitsPerValue))
	if hi != 0 || need > 8*math.MaxInt32 {
		return nil, fmt.Errorf("parquet: new filter: %w: %d values of %d bits", ErrParameters, n, bitsPerValue)
	}
	blocks := (need + 8*BlockBytes - 1) / (8 * BlockBytes)
	return NewBytes(int(min(max(blocks, 1)*BlockBytes, math.MaxInt32)))
}

// NewBytes returns an empty filter of size bytes. The size is a multiple of 32,
// above 0 and below 2^31.
func NewBytes(size int) (*Filter, error) {
	if size <= 0 || size > math.MaxInt32 || size%BlockBytes != 0 {
		return nil, fmt.Errorf("parquet: new filter: %w: %d bytes are not a number of blocks", ErrParameters, size)
	}
	return &Filter{blocks: make([]block, size/BlockBytes)}, nil
}

// Hash returns the hash of a value, given its plain encoding.
func Hash(plain []byte) uint64 { return xxhash.Sum64(plain) }

// Add adds a BYTE_ARRAY, a FIXED_LEN_BYTE_ARRAY or an INT96, or any other value
// in its plain encoding. The error is nil unless f is the zero Filter.
func (f *Filter) Add(plain []byte) error { return f.add(xxhash.Sum64(plain)) }

// errZero is the error of adding to the zero Filter, which would lose the key.
var errZero = errors.New("parquet: add: the zero Filter takes no values; make one with New")

func (f *Filter) add(x uint64) error {
	if len(f.blocks) == 0 {
		return errZero
	}
	f.AddHash(x)
	return nil
}

// MayContain reports whether a value with this plain encoding may be in the
// filter. False is certain.
func (f *Filter) MayContain(plain []byte) bool { return f.MayContainHash(xxhash.Sum64(plain)) }

// AddString is Add of the bytes of s.
func (f *Filter) AddString(s string) error { return f.add(xxhash.Sum64String(s)) }

// MayContainString is MayContain of the bytes of s.
func (f *Filter) MayContainString(s string) bool { return f.MayContainHash(xxhash.Sum64String(s)) }

// AddInt32 adds an INT32.
func (f *Filter) AddInt32(v int32) error { return f.add(hash32(uint32(v))) }

// MayContainInt32 reports whether an INT32 may be in the filter. False is certain.
func (f *Filter) MayContainInt32(v int32) bool { return f.MayContainHash(hash32(uint32(v))) }

// AddInt64 adds an INT64.
func (f *Filter) AddInt64(v int64) error { return f.add(hash64(uint64(v))) }

// MayContainInt64 reports whether an INT64 may be in the filter. False is certain.
func (f *Filter) MayContainInt64(v int64) bool { return f.MayContainHash(hash64(uint64(v))) }

// AddFloat adds a FLOAT.
func (f *Filter) AddFloat(v float32) error { return f.add(hash32(math.Float32bits(v))) }

// MayContainFloat reports whether a FLOAT may be in the filter. False is certain.
func (f *Filter) MayContainFloat(v float32) bool {
	return f.MayContainHash(hash32(math.Float32bits(v)))
}

// AddDouble adds a DOUBLE.
func (f *Filter) AddDouble(v float64) error { return f.add(hash64(math.Float64bits(v))) }

// MayContainDouble reports whether a DOUBLE may be in the filter. False is certain.
func (f *Filter) MayContainDouble(v float64) bool {
	return f.MayContainHash(hash64(math.Float64bits(v)))
}

// AddHash adds the value with this hash (see Hash).
func (f *Filter) AddHash(x uint64) { lines.SplitAdd(f.blocks, x) }

// MayContainHash reports whether a value with this hash may be in the filter.
// False is certain.
func (f *Filter) MayContainHash(x uint64) bool { return lines.SplitHas(f.blocks, x) }

// AddMany is AddHash for each of hashes. It takes a third of the time, or less.
func (f *Filter) AddMany(hashes []uint64) {
	if len(f.blocks) > 0 {
		lines.SplitAddMany(f.blocks, hashes)
	}
}

// MayContainMany sets out[i] to MayContainHash(hashes[i]). If out is longer than hashes, the
// rest of out becomes true. It takes half of the time of single questions, or less.
func (f *Filter) MayContainMany(hashes []uint64, out []bool) {
	n := min(len(hashes), len(out))
	if len(f.blocks) == 0 {
		n = 0
	}
	for i := range out[n:] {
		out[n+i] = true
	}
	if n > 0 {
		lines.SplitHasMany(f.blocks, hashes[:n], out[:n])
	}
}

// SizeBytes returns the number of bytes of the blocks. The header stores this number.
func (f *Filter) SizeBytes() int { return BlockBytes * len(f.blocks) }

// FPR returns the share of absent values that pass with the bits that are set at
// the moment.
func (f *Filter) FPR() float64 {
	if len(f.blocks) == 0 {
		return 1
	}
	sum := 0.0
	for i := range f.blocks {
		p := 1.0
		for _, w := range f.blocks[i] {
			p *= float64(bits.OnesCount32(w)) / 32
		}
		sum += p
	}
	return sum / float64(len(f.blocks))
}

// String describes the filter in one line. It counts bits.
func (f Filter) String() string {
	if len(f.blocks) == 0 {
		return "parquet.Filter: the zero value, which says maybe to every key"
	}
	return fmt.Sprintf("parquet.Filter: %d bits, %.3g %% of absent values pass", 8*uint64(f.SizeBytes()), 100*f.FPR())
}

// Reset removes all values.
func (f *Filter) Reset() { clear(f.blocks) }

// Clone returns a copy. Changes of one do not change the other.
func (f *Filter) Clone() *Filter { return &Filter{blocks: append([]block(nil), f.blocks...)} }

// Union adds the values of another filter. The error is [ErrParameters] if the sizes differ.
// The values of both must have the same type; Union cannot check that.
func (f *Filter) Union(other *Filter) error {
	if len(f.blocks) != len(other.blocks) {
		return fmt.Errorf("parquet: union: %w: %d and %d bytes", ErrParameters, f.SizeBytes(), other.SizeBytes())
	}
	for i := range other.blocks {
		for j, w := range other.blocks[i] {
			f.blocks[i][j] |= w
		}
	}
	return nil
}

// hash32 and hash64 hash the plain encoding of a number: its bytes, little-endian.
func hash32(v uint32) uint64 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	return xxhash.Sum64(b[:])
}

func hash64(v uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return xxhash.Sum64(b[:])
}

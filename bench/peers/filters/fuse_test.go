package main

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/FastFilter/xorfilter"

	"github.com/shaledb/shale/bloom"
)

// The bytes that shale stores are a filter for the library of the method's authors too: with
// the fields of the trailer and the fingerprints it gives the same answers.
func TestFuse_AnswersAsXorfilter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{100, 5000, 300_000} {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = random.Uint64()
		}
		f8, x8 := bothFuse[uint8](t, hashes, 8)
		f16, x16 := bothFuse[uint16](t, hashes, 16)
		for i := range 40_000 {
			h := random.Uint64()
			if i < len(hashes) && i%2 == 0 {
				h = hashes[i]
			}
			if got, want := f8.MayContainHash(h), x8.Contains(h); got != want {
				t.Fatalf("%d keys, 8 bits: MayContain(%016x) = %v, xorfilter says %v", n, h, got, want)
			}
			if got, want := f16.MayContainHash(h), x16.Contains(h); got != want {
				t.Fatalf("%d keys, 16 bits: MayContain(%016x) = %v, xorfilter says %v", n, h, got, want)
			}
		}
	}
}

// bothFuse returns a filter of shale, and its fields and fingerprints as one of xorfilter.
// docs/FORMAT.md says where they lie.
func bothFuse[T uint8 | uint16](t *testing.T, hashes []uint64, bits int) (*bloom.Fuse, *xorfilter.BinaryFuse[T]) {
	t.Helper()
	b, err := bloom.AppendStatic(nil, hashes, bloom.StaticOptions{Kind: bloom.KindFuse, BitsPerKey: bloom.FuseBits(len(hashes), bits)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := bloom.OpenFuse(b)
	if err != nil || f.Bits() != bits {
		t.Fatalf("a filter of %d bits, %v, want %d bits", f.Bits(), err, bits)
	}
	trailer := b[len(b)-32:]
	segments, length := binary.LittleEndian.Uint32(trailer[12:]), binary.LittleEndian.Uint32(trailer[16:])
	x := &xorfilter.BinaryFuse[T]{
		Seed:               binary.LittleEndian.Uint64(b[len(b)-40:]),
		SegmentLength:      length,
		SegmentLengthMask:  length - 1,
		SegmentCount:       segments,
		SegmentCountLength: segments * length,
		Fingerprints:       make([]T, (segments+2)*length),
	}
	for i := range x.Fingerprints {
		if bits == 8 {
			x.Fingerprints[i] = T(b[i])
		} else {
			x.Fingerprints[i] = T(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
	return f, x
}

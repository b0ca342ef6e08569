package hashes_test

import (
	"crypto/md5"
	"crypto/sha1"
	"fmt"
	"hash"
	"hash/crc64"
	"hash/fnv"
	"math"
	"slices"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/hashes"
)

// The serialized form has the id of the function, so that a filter is never asked with another
// one. Programs that exchange filters agree about the ids.
func ExampleOf() {
	options := bloom.FilterOptions{Keys: 1000, Hash: hashes.Of(md5.New), HashID: bloom.FirstOwnHashID}
	f, err := bloom.NewFilter(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	f.AddString("oak")
	b, err := f.MarshalBinary()
	if err != nil {
		fmt.Println(err)
		return
	}

	read, err := bloom.NewFilter(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := read.UnmarshalBinary(b); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(read.MayContainString("oak"), read.MayContainString("elm"))
	// Output: true false
}

// A bit array of a program that takes FNV-1 + i · FNV-1a modulo the number of bits, as
// github.com/riobard/go-bloom does with double FNV.
func ExamplePositions() {
	bits := make([]byte, 128)
	h1, h2 := hashes.DoubleFNV([]byte("oak"))
	for x := range hashes.Positions(h1, h2, 8*uint64(len(bits)), 6) {
		bits[x/8] |= 1 << (x % 8)
	}

	mayContain := func(key string) bool {
		h1, h2 := hashes.DoubleFNV([]byte(key))
		for x := range hashes.Positions(h1, h2, 8*uint64(len(bits)), 6) {
			if bits[x/8]&(1<<(x%8)) == 0 {
				return false
			}
		}
		return true
	}
	fmt.Println(mayContain("oak"), mayContain("elm"))
	// Output: true false
}

// The positions of github.com/zhenjl/bloom, whose New makes a filter for one error in a thousand, and of other
// libraries that take any hash.Hash: the lower half of a digest of 64 bits, plus i times the upper half.
func ExamplePositions_halves() {
	h := fnv.New64()
	_, _ = h.Write([]byte("oak")) // it never fails: see hash.Hash
	digest := h.Sum64()
	m := bloom.SizeBits(1000, 0.001)
	fmt.Println(m, slices.Collect(hashes.Positions(digest&math.MaxUint32, digest>>32, m, 10)))
	// Output: 14378 [3754 5892 8030 10168 12306 66 2204 4342 6480 8618]
}

// A program in Python that has its filter in a string of Redis sets 7 of 5,000,000 bits for each URL, at
// mmh3.hash(url, seed) % 5000000 for the seeds 41 to 47. The number has a sign, and % of Python is never
// negative. Redis counts the bits of a byte from the highest.
func ExampleMurmur32() {
	const size = 5_000_000
	positions := func(url string) (all []int) {
		for seed := uint32(41); seed <= 47; seed++ {
			x := int(int32(hashes.Murmur32([]byte(url), seed))) % size
			all = append(all, (x+size)%size)
		}
		return all
	}
	bits := make([]byte, size/8) // GET returns these; SETBIT changes one bit
	for _, x := range positions("foo") {
		bits[x/8] |= 0x80 >> (x % 8)
	}
	mayContain := func(url string) bool {
		return !slices.ContainsFunc(positions(url), func(x int) bool { return bits[x/8]&(0x80>>(x%8)) == 0 })
	}
	fmt.Println(positions("foo"))
	fmt.Println(mayContain("foo"), mayContain("bar"))
	// Output:
	// [2082334 2698718 702455 1570394 2625358 2452387 1482649]
	// true false
}

// Does the hash function matter? Six of them, with 100,000 keys at one false positive in a thousand. What
// differs is the time: go test -run '^$' -bench . ./bloom/hashes measures it.
func Example_compared() {
	for _, c := range []struct {
		name    string
		options bloom.FilterOptions
	}{
		{"Murmur3", bloom.FilterOptions{}},
		{"XXH3", bloom.FilterOptions{Hasher: bloom.Must(bloom.NewHasher(bloom.HashXXH3, 0))}},
		{"FNV-1", bloom.FilterOptions{Hash: hashes.Of(fnv.New64)}},
		{"CRC-64", bloom.FilterOptions{Hash: hashes.Of(func() hash.Hash64 { return crc64.New(crc64.MakeTable(crc64.ECMA)) })}},
		{"MD5", bloom.FilterOptions{Hash: hashes.Of(md5.New)}},
		{"SHA-1", bloom.FilterOptions{Hash: hashes.Of(sha1.New)}},
	} {
		c.options.Keys, c.options.FPR = 100_000, 0.001
		f := bloom.Must(bloom.NewFilter(c.options))
		for i := range 100_000 {
			f.Add(fmt.Appendf(nil, "word %d", i))
		}
		passed := 0
		for i := range 100_000 {
			if f.MayContain(fmt.Appendf(nil, "no word %d", i)) {
				passed++
			}
		}
		fmt.Printf("%-8s %.2f %% of the bits set, %3d of 100000 absent keys pass\n", c.name, 100*f.FillRatio(), passed)
	}
	// Output:
	// Murmur3  50.12 % of the bits set,  76 of 100000 absent keys pass
	// XXH3     50.15 % of the bits set, 112 of 100000 absent keys pass
	// FNV-1    50.10 % of the bits set, 102 of 100000 absent keys pass
	// CRC-64   50.09 % of the bits set,  81 of 100000 absent keys pass
	// MD5      50.11 % of the bits set,  94 of 100000 absent keys pass
	// SHA-1    50.13 % of the bits set,  94 of 100000 absent keys pass
}

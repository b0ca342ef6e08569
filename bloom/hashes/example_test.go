package hashes_test

import (
	"crypto/md5"
	"fmt"

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

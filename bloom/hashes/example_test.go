package hashes_test

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/hashes"
)

// open returns a filter of any hash function that this program has.
func open(b []byte) (*bloom.Filter, error) {
	id, err := bloom.HashIDOf(b)
	if err != nil {
		return nil, err
	}
	f := new(bloom.Filter)
	if hash := hashes.ByID(id); hash != nil {
		f, err = bloom.NewFilter(bloom.FilterOptions{Keys: 1, Hash: hash, HashID: id})
		if err != nil {
			return nil, err
		}
	}
	return f, f.UnmarshalBinary(b)
}

// The serialized form has the id of the function. So a program that reads it need not know
// beforehand with which function it was made.
func ExampleByID() {
	f, err := bloom.NewFilter(bloom.FilterOptions{Keys: 1000, Hash: hashes.CRC, HashID: hashes.IDCRC})
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

	read, err := open(b)
	if err != nil {
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

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
	fmt.Println(read.CheckString("oak"), read.CheckString("elm"))
	// Output: true false
}

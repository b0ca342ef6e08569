package xorfilter_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/shaledb/shale/bloom/compat/xorfilter"
)

// A filter for LoadBinaryFuse[uint16] of github.com/FastFilter/xorfilter, in a program that
// asks it for the xxhash of its keys.
func Example() {
	f, err := xorfilter.NewFuse[uint16]([]uint64{xxhash.Sum64String("alice"), xxhash.Sum64String("carol")})
	if err != nil {
		panic(err)
	}
	var file bytes.Buffer
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}

	g, err := xorfilter.OpenFuse[uint16](file.Bytes())
	if err != nil {
		panic(err)
	}
	g.SetHash(xxhash.Sum64)
	fmt.Println(g)
	fmt.Println(g.MayContainString("alice"), g.MayContainString("carol"), g.MayContainString("bob"))
	// Output:
	// xorfilter.Fuse: 12 fingerprints of 16 bits, 0.00153 % of absent keys pass
	// true true false
}

// What json.Marshal writes of the Xor8 of github.com/FastFilter/xorfilter.
func ExampleXor8Fields() {
	file := []byte(`{"Seed":10451216379200822465,"BlockLength":11,"Fingerprints":"cQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
	var fields xorfilter.Xor8Fields
	if err := json.Unmarshal(file, &fields); err != nil {
		panic(err)
	}
	f, err := fields.Open()
	if err != nil {
		panic(err)
	}
	fmt.Println(f.MayContainHash(1), f.MayContainHash(2))
	// Output: true false
}

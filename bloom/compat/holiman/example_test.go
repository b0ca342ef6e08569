package holiman_test

import (
	"bytes"
	"fmt"
	"hash/fnv"

	"github.com/shaledb/shale/bloom/compat/holiman"
)

// A filter for ReadFile of github.com/holiman/bloomfilter/v2, in a program that asks it for
// the FNV-1a of its keys.
func Example() {
	f, err := holiman.New(1000, 0.01, holiman.Sum64(fnv.New64a))
	if err != nil {
		panic(err)
	}
	if err := f.AddString("alice"); err != nil {
		panic(err)
	}

	var file bytes.Buffer // in gzip
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}

	var g holiman.Filter
	g.SetHash(holiman.Sum64(fnv.New64a))
	if _, err := g.ReadFrom(&file); err != nil {
		panic(err)
	}
	fmt.Printf("%d bits, k %d, %d key\n", g.Cap(), g.K(), g.Count())
	fmt.Println(g.MayContainString("alice"), g.MayContainString("bob"))
	// Output:
	// 9586 bits, k 7, 1 key
	// true false
}

func ExampleFilter_MarshalJSON() {
	f, err := holiman.NewFilter(holiman.Options{Bits: 64, Seeds: []uint64{1, 2}})
	if err != nil {
		panic(err)
	}
	f.AddHash(5)
	b, err := f.MarshalJSON()
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
	// Output: {"version":"v02\n","bits":[6],"keys":[1,2],"m":64,"n":1}
}

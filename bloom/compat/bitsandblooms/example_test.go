package bitsandblooms_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/shaledb/shale/bloom/compat/bitsandblooms"
)

// A filter that programs with github.com/bits-and-blooms/bloom/v3 read.
func Example() {
	f, err := bitsandblooms.NewWithEstimates(1000, 0.01)
	if err != nil {
		panic(err)
	}
	f.AddString("alice")

	var file bytes.Buffer
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes, m %d, k %d\n", file.Len(), f.Cap(), f.K())

	var g bitsandblooms.Filter
	if _, err := g.ReadFrom(&file); err != nil {
		panic(err)
	}
	fmt.Println(g.MayContainString("alice"), g.MayContainString("bob"))
	// Output:
	// 1224 bytes, m 9586, k 7
	// true false
}

func ExampleFilter_MarshalJSON() {
	f, err := bitsandblooms.New(64, 3)
	if err != nil {
		panic(err)
	}
	f.AddString("a")
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
	// Output: {"m":64,"k":3,"b":"AAAAAAAAAEAEAAAAAAACAA=="}
}

package guava_test

import (
	"bytes"
	"fmt"

	"github.com/shaledb/shale/bloom/compat/guava"
)

// A filter for BloomFilter.readFrom(in, Funnels.stringFunnel(UTF_8)) in Java.
func Example() {
	f, err := guava.New(1000, 0.01)
	if err != nil {
		panic(err)
	}
	f.AddString("alice@example.com")

	var file bytes.Buffer
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes, %v, k %d\n", file.Len(), f.Strategy(), f.K())

	var g guava.Filter
	if _, err := g.ReadFrom(&file); err != nil {
		panic(err)
	}
	fmt.Println(g.MayContainString("alice@example.com"), g.MayContainString("bob@example.com"))
	// Output:
	// 1206 bytes, MURMUR128_MITZ_64, k 7
	// true false
}

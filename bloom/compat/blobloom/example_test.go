package blobloom_test

import (
	"bytes"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/shaledb/shale/bloom/compat/blobloom"
)

// A filter that programs with github.com/greatroar/blobloom load, and ask for the xxhash of
// their keys. The comment says so.
func Example() {
	f, err := blobloom.NewFilter(blobloom.Options{Keys: 1000, FPR: 0.01, Hash: xxhash.Sum64, Comment: "xxhash"})
	if err != nil {
		panic(err)
	}
	if err := f.AddString("alice"); err != nil {
		panic(err)
	}
	f.AddHash(xxhash.Sum64String("carol"))

	var file bytes.Buffer
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes, %d hashes\n", file.Len(), f.Hashes())

	g, err := blobloom.Open(file.Bytes())
	if err != nil {
		panic(err)
	}
	if g.Comment() == "xxhash" {
		g.SetHash(xxhash.Sum64)
	}
	fmt.Println(g.MayContainString("alice"), g.MayContainString("carol"), g.MayContainString("bob"))
	// Output:
	// 1344 bytes, 8 hashes
	// true true false
}

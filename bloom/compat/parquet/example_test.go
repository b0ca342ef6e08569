package parquet_test

import (
	"bytes"
	"fmt"

	"github.com/shaledb/shale/bloom/compat/parquet"
)

// A filter as it stands in a file at bloom_filter_offset.
func Example() {
	f, err := parquet.New(1000, 0.01)
	if err != nil {
		panic(err)
	}
	f.AddString("alice")
	f.AddInt64(42)

	var file bytes.Buffer
	if _, err := f.WriteTo(&file); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes, %d of them blocks\n", file.Len(), f.SizeBytes())

	var g parquet.Filter // of a file: g.ReadFrom(io.NewSectionReader(file, offset, length))
	if _, err := g.ReadFrom(&file); err != nil {
		panic(err)
	}
	fmt.Println(g.MayContainString("alice"), g.MayContainString("bob"))
	fmt.Println(g.MayContainInt64(42), g.MayContainInt32(42))
	// Output:
	// 2064 bytes, 2048 of them blocks
	// true false
	// true false
}

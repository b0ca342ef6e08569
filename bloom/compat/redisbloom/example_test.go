package redisbloom_test

import (
	"fmt"

	"github.com/shaledb/shale/bloom/compat/redisbloom"
)

// These commands give a server the filter.
func Example() {
	f, err := redisbloom.New(1000, 0.01) // BF.RESERVE visitors 0.01 1000
	if err != nil {
		panic(err)
	}
	if err := f.AddString("alice"); err != nil { // BF.ADD visitors alice
		panic(err)
	}
	fmt.Println(f.MayContainString("alice"), f.MayContainString("bob")) // BF.EXISTS

	for iterator, chunk := range f.Chunks() {
		fmt.Printf("BF.LOADCHUNK visitors %d (%d bytes)\n", iterator, len(chunk))
	}
	// Output:
	// true false
	// BF.LOADCHUNK visitors 1 (73 bytes)
	// BF.LOADCHUNK visitors 1385 (1384 bytes)
}

// The answers of a server to BF.SCANDUMP become a filter.
func ExampleLoader() {
	server, err := redisbloom.New(100, 0.01)
	if err != nil {
		panic(err)
	}
	if err := server.AddString("alice"); err != nil {
		panic(err)
	}

	var l redisbloom.Loader
	iterator, chunk := server.ScanDump(0)
	for iterator != 0 {
		if err := l.LoadChunk(iterator, chunk); err != nil {
			panic(err)
		}
		iterator, chunk = server.ScanDump(iterator)
	}
	f, err := l.Filter()
	if err != nil {
		panic(err)
	}
	fmt.Println(f.MayContainString("alice"), f.MayContainString("bob"))
	// Output: true false
}

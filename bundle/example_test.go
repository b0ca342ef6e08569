package bundle_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/bundle"
	"github.com/shaledb/shale/vfs"
)

// The filters of a store go to a program that has no store, and answer there for the state that was exported.
func ExampleRead() {
	db, err := shale.Open("hosts.db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Put([]byte("www.example.org"), []byte("seen")); err != nil {
		panic(err)
	}
	var file bytes.Buffer
	if _, err := db.Inspect().ExportFilters(context.Background(), &file); err != nil {
		panic(err)
	}

	filters, err := bundle.Read(&file, 1<<30)
	if err != nil {
		panic(err)
	}
	fmt.Println(filters.MayContain([]byte("www.example.org")), filters.MayContain([]byte("www.example.net")), filters.Err())
	// Output: true false <nil>
}

package remote_test

import (
	"context"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/vfs"
)

// A program writes, and another one, perhaps on another machine, reads what it has written.
func ExampleOpenReader() {
	ctx := context.Background()
	bucket := remote.NewMem() // package remote/s3 has buckets on servers
	writer, err := remote.Open(ctx, "db", bucket, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	defer writer.Close()
	must(writer.DB().Put([]byte("greeting"), []byte("hello")))

	reader, err := remote.OpenReader(ctx, bucket, nil)
	must(err)
	defer reader.Close()
	// The writer tells the reader how far it has written.
	must(reader.WaitFor(ctx, shale.ShippingOf(writer.DB()).Position().LastSeq))
	value, err := reader.Get([]byte("greeting"))
	fmt.Printf("%s %v\n", value, err)
	_, err = reader.Get([]byte("farewell"))
	fmt.Println(err)
	// Output:
	// hello <nil>
	// shale: not found
}

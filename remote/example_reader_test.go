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
	must(reader.WaitFor(ctx, writer.DB().LogPosition().LastSeq))
	value, err := reader.Get([]byte("greeting"))
	fmt.Printf("%s %v\n", value, err)
	_, err = reader.Get([]byte("farewell"))
	fmt.Println(err)
	// Output:
	// hello <nil>
	// shale: not found
}

// A clone begins with the state of a pin, and copies nothing.
func ExampleClone() {
	ctx := context.Background()
	prod, test := remote.NewMem(), remote.NewMem()
	writer, err := remote.Open(ctx, "db", prod, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	defer writer.Close()
	must(writer.DB().Put([]byte("greeting"), []byte("hello")))
	must(writer.Publish(ctx))
	_, err = writer.Pin(ctx, "before-the-test", remote.PinOptions{})
	must(err)

	must(remote.Clone(ctx, prod, "before-the-test", test, remote.CloneOptions{Prefix: "prod"}))
	reader, err := remote.OpenReader(ctx, test, &remote.ReaderOptions{
		Parent: func(prefix string) (remote.Bucket, error) { return prod, nil },
	})
	must(err)
	defer reader.Close()
	value, err := reader.Get([]byte("greeting"))
	fmt.Printf("%s %v\n", value, err)
	// Output: hello <nil>
}

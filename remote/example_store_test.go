package remote_test

import (
	"context"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/vfs"
)

// A program that must not wait for its backup opens its store itself.
func ExampleAttach() {
	ctx := context.Background()
	disk, bucket := vfs.NewMem(), remote.NewMem()
	db, err := shale.Open("store", &shale.Options{
		FS: disk, Shipping: shale.ShippingOptions{HoldLogs: remote.LogsToHold(disk, "store")},
	})
	must(err)
	defer db.Close()
	backup, err := remote.Attach(ctx, db, "store", bucket, &remote.Options{Store: shale.Options{FS: disk}})
	must(err)
	must(db.Put([]byte("city"), []byte("Oslo")))
	must(backup.Ship(ctx)) // by itself each second
	fmt.Println(backup.Lag().Shipped == backup.Lag().Seq)
	must(backup.Close())
	fmt.Println(db.Has([]byte("city"))) // the store goes on
	// Output:
	// true
	// true <nil>
}

// A pin keeps a state beyond the time for which the bucket keeps all of them.
func ExampleStore_Pin() {
	ctx := context.Background()
	bucket := remote.NewMem()
	s, err := remote.Open(ctx, "store", bucket, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	defer s.Close()
	must(s.DB().Put([]byte("city"), []byte("Oslo")))
	pin, err := s.Pin(ctx, "before-the-move", remote.PinOptions{})
	must(err)
	must(s.DB().Put([]byte("city"), []byte("Bergen")))

	disk := vfs.NewMem()
	_, err = remote.Restore(ctx, bucket, "restored", remote.At{}, &remote.RestoreOptions{FS: disk, Pin: pin.Label})
	must(err)
	db, err := shale.Open("restored", &shale.Options{FS: disk})
	must(err)
	defer db.Close()
	city, err := db.Get([]byte("city"))
	fmt.Printf("%s %v\n", city, err)
	// Output: Oslo <nil>
}

// The machine of the writer is lost, or seems to be. A reader takes the store over, and the first writer is fenced.
func ExampleReader_Promote() {
	ctx := context.Background()
	bucket := remote.NewMem()
	first, err := remote.Open(ctx, "store", bucket, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	defer first.Close()
	must(first.DB().Put([]byte("city"), []byte("Oslo")))
	must(first.Ship(ctx))

	reader, err := remote.OpenReader(ctx, bucket, nil)
	must(err)
	defer reader.Close()
	second, err := reader.Promote(ctx, "store", &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	defer second.Close()
	fmt.Println(second.DB().Has([]byte("city")))
	fmt.Println(second.DB().Put([]byte("city"), []byte("Bergen")))
	fmt.Println(first.DB().Put([]byte("city"), []byte("Paris")) == nil && first.Ship(ctx) == nil)
	// Output:
	// true <nil>
	// <nil>
	// false
}

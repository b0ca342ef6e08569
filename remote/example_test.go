package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/vfs"
)

// must ends the program if err is not nil.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Of two programs that create the same object one succeeds, and the other reads what is there.
func ExampleBucket() {
	ctx := context.Background()
	bucket := remote.NewMem()
	for _, writer := range []string{"ann", "bob"} {
		err := remote.PutObject(ctx, bucket, "m/0000000000000001", []byte(writer), true)
		if errors.Is(err, remote.ErrExists) {
			owner, err := remote.ReadObject(ctx, bucket, "m/0000000000000001", 100)
			must(err)
			fmt.Printf("%s comes late: it is %s's\n", writer, owner)
		}
	}
	for info, err := range bucket.List(ctx, "m/", "") {
		must(err)
		fmt.Println(info.Name, info.Size)
	}
	// Output:
	// bob comes late: it is ann's
	// m/0000000000000001 3
}

// A bucket is tried before a store relies on it.
func ExampleProbe() {
	err := remote.Probe(context.Background(), remote.NewMem())
	fmt.Println(err)
	// Output: <nil>
}

// A store is kept in a bucket, and restored as it was before a mistake.
func ExampleRestore() {
	ctx := context.Background()
	bucket := remote.NewMem()
	s, err := remote.Open(ctx, "store", bucket, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	must(s.DB().Put([]byte("city"), []byte("Oslo")))
	before := shale.ShippingOf(s.DB()).Position().LastSeq
	must(s.DB().Delete([]byte("city"))) // a mistake
	must(s.Ship(ctx))
	must(s.Close())

	disk := vfs.NewMem()
	r, err := remote.Restore(ctx, bucket, "restored", remote.At{Seq: before}, &remote.RestoreOptions{FS: disk})
	must(err)
	fmt.Println("restored to", r.At.Seq, "and left out up to", r.Left.LastSeq)

	db, err := shale.Open("restored", &shale.Options{FS: disk})
	must(err)
	defer db.Close()
	city, err := db.Get([]byte("city"))
	must(err)
	fmt.Println(string(city))
	// Output:
	// restored to 1 and left out up to 2
	// Oslo
}

// A point that can't be restored is refused, with the nearest one that can.
func ExamplePointError() {
	ctx := context.Background()
	bucket := remote.NewMem()
	s, err := remote.Open(ctx, "store", bucket, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	must(s.DB().Put([]byte("city"), []byte("Oslo")))
	must(s.Ship(ctx))
	must(s.Close())

	_, err = remote.Restore(ctx, bucket, "restored", remote.At{Seq: 99}, &remote.RestoreOptions{FS: vfs.NewMem()})
	var refused *remote.PointError
	fmt.Println(errors.As(err, &refused), refused.Why, "- before it:", refused.Before.Seq)
	// Output: true the logs in the bucket end at sequence number 1 - before it: 1
}

// A backup that nobody has read is a hope.
func ExampleVerify() {
	ctx := context.Background()
	bucket := remote.NewMem()
	s, err := remote.Open(ctx, "store", bucket, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
	must(err)
	must(s.DB().Put([]byte("city"), []byte("Oslo")))
	must(s.DB().Flush(ctx))
	must(s.Publish(ctx))
	must(s.Close())

	report, err := remote.Verify(ctx, bucket, true)
	must(err)
	fmt.Println(report.Tables, "table,", len(report.Findings), "findings")
	// Output: 1 table, 0 findings
}

// A store is kept in a bucket while it is written. When its machine is lost, it is restored on another one,
// which goes on.
func ExampleOpen() {
	ctx := context.Background()
	bucket, disk := remote.NewMem(), vfs.NewMem()
	store, err := remote.Open(ctx, "db", bucket, &remote.Options{Store: shale.Options{FS: disk}})
	must(err)
	must(store.DB().Put([]byte("user"), []byte("ann")))
	must(store.Publish(ctx)) // it does that by itself: the log each second, tables each minute

	another := vfs.NewMem()
	_, err = remote.Restore(ctx, bucket, "db", remote.At{}, &remote.RestoreOptions{FS: another})
	must(err)
	successor, err := remote.Open(ctx, "db", bucket, &remote.Options{Store: shale.Options{FS: another}})
	must(err)
	user, err := successor.DB().Get([]byte("user"))
	must(err)
	fmt.Printf("%s\n", user)

	// The machine was not lost, but only slow. Its writer finds out that it is fenced when it next ships.
	must(store.DB().Put([]byte("user"), []byte("bob")))
	fmt.Println(errors.Is(store.Ship(ctx), remote.ErrFenced))
	must(store.Close())
	for unshipped, err := range remote.Salvage(disk, "db") {
		must(err)
		for op := range unshipped.Batch.Ops() {
			fmt.Printf("was not shipped: %s = %s\n", op.Key, op.Value)
		}
	}
	must(successor.Close())
	// Output:
	// ann
	// true
	// was not shipped: user = bob
}

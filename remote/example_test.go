package remote_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/vfs"
)

// The time of the examples.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

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
		err := remote.PutObject(ctx, bucket, remote.StepName(1), []byte(writer), true)
		if errors.Is(err, remote.ErrExists) {
			owner, err := remote.ReadObject(ctx, bucket, remote.StepName(1), 100)
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

func ExampleParseName() {
	name, ok := remote.ParseName("w/000000000000000c/0000000000001000")
	fmt.Println(ok, name.Kind == remote.KindSegment, name.Num, name.Offset)
	_, ok = remote.ParseName("holiday.jpg")
	fmt.Println(ok)
	// Output:
	// true true 12 4096
	// false
}

func ExampleDecodeIdentity() {
	object, err := (&remote.Identity{StoreID: 77, Created: noon}).Encode(nil)
	must(err)
	identity, err := remote.DecodeIdentity(object)
	must(err)
	fmt.Println(len(object), identity.StoreID, identity.Created)
	// Output: 36 77 2026-01-02 12:00:00 +0000 UTC
}

// A segment that stands under the name of another one is found out, and so is every changed byte.
func ExampleDecodeSegment() {
	const store = 77
	s := &remote.Segment{StoreID: store, Log: 12, Offset: 4096, FirstSeq: 7, LastSeq: 8, Written: noon, Body: []byte("records")}
	object, err := s.Encode(nil)
	must(err)
	got, err := remote.DecodeSegment(s.Name(), store, object)
	must(err)
	fmt.Printf("%s has %q, up to %d\n", got.Name(), got.Body, got.End())
	_, err = remote.DecodeSegment(remote.SegmentName(13, 4096), store, object)
	fmt.Println(err)
	object[98] ^= 1
	_, err = remote.DecodeSegment(s.Name(), store, object)
	fmt.Println(err)
	// Output:
	// w/000000000000000c/0000000000001000 has "records", up to 4103
	// corrupt w/000000000000000d/0000000000001000: segment: it is the object w/000000000000000c/0000000000001000
	// corrupt w/000000000000000c/0000000000001000: segment: body: checksum d6ee97b3, want 248514b0
}

// A step says what has changed in the tables.
func ExampleDecodeStep() {
	const store = 77
	s := &remote.Step{
		StoreID: store, N: 7, Epoch: 1, Writer: 42, Written: noon,
		Edit:    &manifest.Edit{Removed: []manifest.Removed{{Level: 1, Num: 13}}},
		Extents: []remote.Extent{{Log: 14, Length: 5000, LastSeq: 9}},
	}
	object, err := s.Encode(nil)
	must(err)
	got, err := remote.DecodeStep(s.Name(), store, object)
	must(err)
	fmt.Println(got.N, got.Edit.Removed[0].Num, got.Extents)
	// Output: 7 000013 [{14 5000 9 false}]
}

// exampleState returns the state of an empty store.
func exampleState(store uint64) remote.State {
	return remote.State{
		StoreID: store, N: 7, Written: noon,
		Tables:  &manifest.State{StoreID: store, NextFileNum: 20, LastSeq: 6},
		Extents: []remote.Extent{{Log: 14, Length: 5000, LastSeq: 9}},
	}
}

func ExampleDecodeState() {
	s := exampleState(77)
	object, err := s.Encode(nil)
	must(err)
	got, err := remote.DecodeState(s.Name(), 77, object)
	must(err)
	fmt.Println(got.N, got.Tables.NextFileNum, got.Tables.LastSeq, got.Extents)
	// Output: 7 000020 6 [{14 5000 9 false}]
}

// A pin is a state with a name, an owner and an end.
func ExampleDecodePin() {
	p := &remote.Pin{StoreID: 77, N: 7, Written: noon, Epoch: 1, Writer: 5, Label: "nightly", Owner: "ann", Expires: noon.Add(24 * time.Hour)}
	object, err := p.Encode(nil)
	must(err)
	got, err := remote.DecodePin("p/nightly", 77, object)
	must(err)
	fmt.Println(got.Name(), got.N, got.Owner, got.Expires.Format(time.DateOnly))
	// Output: p/nightly 7 ann 2026-01-03
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

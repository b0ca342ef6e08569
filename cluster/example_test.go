package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// The same program on a store of its own and on a group. docs/GROUP.md shows both.

// countAlone counts a visit in a store of this process.
func countAlone(ctx context.Context, db *shale.DB, page string) error {
	key := []byte("visits/" + page)
	return db.Update(ctx, func(tx *shale.Txn) error {
		old, err := tx.Get(key)
		if err != nil && !errors.Is(err, shale.ErrNotFound) {
			return err
		}
		return tx.Put(key, append(old, '|'))
	})
}

// countInGroup counts a visit in a group, on any member: Options.Forward is set.
func countInGroup(ctx context.Context, n *cluster.Node, page string) error {
	key := []byte("visits/" + page)
	err := n.Update(ctx, func(tx *cluster.Txn) error {
		old, err := tx.Get(key)
		if err != nil && !errors.Is(err, shale.ErrNotFound) {
			return err
		}
		return tx.Put(key, append(old, '|'))
	})
	if errors.Is(err, cluster.ErrUnknown) {
		return fmt.Errorf("counted or not, read it again: %w", err)
	}
	return err
}

func Example() {
	dir, err := os.MkdirTemp("", "group")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	db, err := shale.Open(dir+"/alone", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(countAlone(ctx, db, "index"))
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	a, err := cluster.Open(dir+"/a", &cluster.Options{ID: "a", Bootstrap: true})
	if err != nil {
		log.Fatal(err)
	}
	b, err := cluster.Open(dir+"/b", &cluster.Options{ID: "b", Join: []string{a.Address()}, Forward: true})
	if err != nil {
		log.Fatal(err)
	}
	for !a.IsLeader() {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println(countInGroup(ctx, a, "index"), countInGroup(ctx, b, "index"))
	err = b.Read(ctx, func(r shale.Reader) error {
		v, err := r.Get([]byte("visits/index"))
		fmt.Println(string(v), err)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(b.Close(), a.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// <nil> <nil>
	// || <nil>
}

// A store that one process has kept becomes that of a group.
func ExampleSeed() {
	dir, err := os.MkdirTemp("", "group")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := shale.Open(dir+"/alone", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(db.Put([]byte("city"), []byte("Oslo")), db.Close()); err != nil {
		log.Fatal(err)
	}

	options := &cluster.Options{ID: "a"}
	if err := cluster.Seed(dir+"/a", dir+"/alone", options); err != nil {
		log.Fatal(err)
	}
	a, err := cluster.Open(dir+"/a", options)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = a.Read(ctx, func(r shale.Reader) error { // waits for the member to lead
		city, err := r.Get([]byte("city"))
		fmt.Println(string(city))
		return err
	})
	fmt.Println(err, a.Close())
	// Output:
	// Oslo
	// <nil> <nil>
}

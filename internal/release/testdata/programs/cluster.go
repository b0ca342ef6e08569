package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

func main() {
	ctx := context.Background()
	n, err := cluster.Open(os.Args[1], &cluster.Options{ID: "a", Bootstrap: true})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	for !n.IsLeader() {
		time.Sleep(10 * time.Millisecond)
	}
	err = n.Update(ctx, func(tx *cluster.Txn) error { return tx.Put([]byte("city"), []byte("Oslo")) })
	if err != nil {
		log.Fatal(err)
	}
	err = n.Read(ctx, func(r shale.Reader) error {
		city, err := r.Get([]byte("city"))
		fmt.Println(string(city), err)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

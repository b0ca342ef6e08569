package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
)

func main() {
	ctx, bucket := context.Background(), remote.NewMem()
	s, err := remote.Open(ctx, os.Args[1], bucket, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.DB().Put([]byte("city"), []byte("Oslo")); err != nil {
		log.Fatal(err)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	if _, err := remote.Restore(ctx, bucket, os.Args[1]+".restored", remote.At{}, nil); err != nil {
		log.Fatal(err)
	}
	db, err := shale.Open(os.Args[1]+".restored", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	city, err := db.Get([]byte("city"))
	fmt.Println(string(city), err)
}

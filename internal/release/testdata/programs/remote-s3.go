package main

import (
	"context"
	"fmt"
	"log"

	"github.com/shaledb/shale/remote/s3"
)

func main() {
	config, err := s3.ParseURL("s3+http://127.0.0.1:1/Oslo")
	if err != nil {
		log.Fatal(err)
	}
	_, err = s3.New(context.Background(), config)
	if err == nil {
		log.Fatal("nobody listens there")
	}
	fmt.Println(config.Bucket, "<nil>")
}

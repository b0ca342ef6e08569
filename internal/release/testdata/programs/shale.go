package main

import (
	"fmt"
	"log"
	"os"

	"github.com/shaledb/shale"
)

func main() {
	db, err := shale.Open(os.Args[1], nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("city"), []byte("Oslo")); err != nil {
		log.Fatal(err)
	}
	city, err := db.Get([]byte("city"))
	fmt.Println(string(city), err)
}

// A crawler's set of what it has seen: a Bloom filter, with some 10 bits for each address, whatever its length. For one new address
// in a hundred it says that it was seen.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/redis/go-redis/v9"
)

type seen struct {
	*redis.Client
	name string
}

// make makes the set, which then grows by itself. It leaves one that is there as it is, so crawlers may all call it.
func (s seen) make(ctx context.Context, expected int64) error {
	err := s.BFReserve(ctx, s.name, 0.01, expected).Err()
	if err != nil && strings.Contains(err.Error(), "item exists") {
		return nil
	}
	return err
}

// first returns the addresses that are new, and notes them as seen. If several crawlers ask at the same time, only one of them gets a
// new address.
func (s seen) first(ctx context.Context, links ...string) (fresh []string, err error) {
	items := make([]any, len(links))
	for i, link := range links {
		items[i] = link
	}
	isNew, err := s.BFMAdd(ctx, s.name, items...).Result()
	for i, is := range isNew {
		if is {
			fresh = append(fresh, links[i])
		}
	}
	return fresh, err
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6380", "HOST:PORT of the server")
	flag.Parse()
	ctx, s := context.Background(), seen{redis.NewClient(&redis.Options{Addr: *addr}), "seen by the example"}
	if err := s.make(ctx, 1_000_000); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.first(ctx, "https://example.org/", "https://example.org/about"))
	fmt.Println(s.first(ctx, "https://example.org/about", "https://example.org/news"))
}

// Output:
// [https://example.org/ https://example.org/about] <nil>
// [https://example.org/news] <nil>

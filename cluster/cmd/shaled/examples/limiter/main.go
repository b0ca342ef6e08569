// A rate limiter: a client may make three requests a minute. The minute begins with its first request.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
)

type limiter struct {
	db     *redis.Client
	most   int64
	window time.Duration
}

// allows counts a request, and reports whether it may be done. The two commands are one transaction, so no counter is without an
// end, and NX leaves the end where the first request has put it.
func (l limiter) allows(ctx context.Context, client string) (bool, error) {
	var count *redis.IntCmd
	_, err := l.db.TxPipelined(ctx, func(p redis.Pipeliner) error {
		count = p.Incr(ctx, "requests:"+client)
		p.ExpireNX(ctx, "requests:"+client, l.window)
		return nil
	})
	return err == nil && count.Val() <= l.most, err
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6380", "HOST:PORT of the server")
	flag.Parse()
	ctx, db := context.Background(), redis.NewClient(&redis.Options{Addr: *addr})
	l := limiter{db, 3, time.Minute}
	client := fmt.Sprint("client ", time.Now().UnixNano()) // which has done nothing yet
	for range 5 {
		ok, err := l.allows(ctx, client)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ok)
	}
	left, err := db.TTL(ctx, "requests:"+client).Result()
	fmt.Println(left > 0 && left <= time.Minute, err)
}

// Output:
// true
// true
// true
// false
// false
// true <nil>

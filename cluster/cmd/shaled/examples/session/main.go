// A session store: a session is over when nobody has used it for 30 minutes.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
)

const idle = 30 * time.Minute

type sessions struct{ *redis.Client }

// begin returns the name of a new session, for a cookie. It can't be guessed.
func (s sessions) begin(ctx context.Context, user string) (id string, err error) {
	id = rand.Text()
	return id, s.Set(ctx, "session:"+id, user, idle).Err()
}

// user returns the user of a session, "" if it is over, and has it go on: one command does both, so it can't end in between.
func (s sessions) user(ctx context.Context, id string) (string, error) {
	user, err := s.GetEx(ctx, "session:"+id, idle).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return user, err
}

func (s sessions) end(ctx context.Context, id string) error { return s.Del(ctx, "session:"+id).Err() }

func main() {
	addr := flag.String("addr", "127.0.0.1:6380", "HOST:PORT of the server")
	flag.Parse()
	ctx, s := context.Background(), sessions{redis.NewClient(&redis.Options{Addr: *addr})}
	id, err := s.begin(ctx, "ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.user(ctx, id))
	fmt.Println(s.end(ctx, id))
	fmt.Println(s.user(ctx, id))
}

// Output:
// ann <nil>
// <nil>
//  <nil>

// A lock: of all that want it, one has it, for a time that it names. If that one dies, the lock comes back by itself.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

type lock struct {
	db    *redis.Client
	name  string
	owner string // in no other lock
}

func newLock(db *redis.Client, name string) lock { return lock{db, "lock:" + name, rand.Text()} }

// take reports whether the lock is taken, for the time given. Work that may take longer has to be such that a second owner does no harm.
func (l lock) take(ctx context.Context, long time.Duration) (bool, error) {
	return l.db.SetNX(ctx, l.name, l.owner, long).Result()
}

// give gives the lock back, and reports whether it was still this one's: else it has ended, and may be another's, which keeps it.
// Redis 8.4 has DELEX for it.
func (l lock) give(ctx context.Context) (bool, error) {
	return l.db.Do(ctx, "DELIFEQ", l.name, l.owner).Bool()
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6380", "HOST:PORT of the server")
	flag.Parse()
	ctx, db := context.Background(), redis.NewClient(&redis.Options{Addr: *addr})
	ann, bob := newLock(db, "report"), newLock(db, "report")
	fmt.Println(ann.take(ctx, 10*time.Second))
	fmt.Println(bob.take(ctx, 10*time.Second))
	fmt.Println(bob.give(ctx))
	fmt.Println(ann.give(ctx))
	fmt.Println(bob.take(ctx, 200*time.Millisecond))
	time.Sleep(300 * time.Millisecond)
	fmt.Println(bob.give(ctx))
}

// Output:
// true <nil>
// false <nil>
// false <nil>
// true <nil>
// true <nil>
// false <nil>

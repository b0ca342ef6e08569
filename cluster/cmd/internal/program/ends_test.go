package program

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// In a group a value that is changed keeps its end to the millisecond, whatever changes it, and one that gets an end has that one.
func TestGroup_KeepsEnds(t *testing.T) {
	t.Parallel()
	group := three(t)
	client := dial(t, group[2].addr)
	ctx := t.Context()
	at := time.Now().Add(time.Hour).Truncate(time.Second).Add(123 * time.Millisecond)
	for _, words := range []string{
		"SET %s 1 PXAT %d", "PEXPIREAT %s %d", "GETEX %s PXAT %d", "SET %s 1 PXAT %d XX", "SET %s 1 PXAT %d GET",
	} {
		for _, changes := range [][]any{
			{"INCR", "k"}, {"DECRBY", "k", 3}, {"APPEND", "k", "0"}, {"SET", "k", 2, "KEEPTTL"}, {"GETEX", "k"},
		} {
			mustNil(t, client.Set(ctx, "k", 1, 0).Err())
			set := redis.NewCmd(ctx, split(fmt.Sprintf(words, "k", at.UnixMilli()))...)
			mustNil(t, errors.Join(client.Process(ctx, set), client.Do(ctx, changes...).Err()))
			if ms := client.Do(ctx, "PEXPIRETIME", "k").Val(); ms != at.UnixMilli() {
				t.Errorf("%s, %v: it ends at %v instead of %d", words, changes, ms, at.UnixMilli())
			}
		}
	}
	mustNil(t, client.BFReserve(ctx, "f", 0.01, 100).Err())
	mustNil(t, errors.Join(client.PExpireAt(ctx, "f", at).Err(), client.BFAdd(ctx, "f", "x").Err(), client.BFMAdd(ctx, "f", 1, 2).Err()))
	if ms := client.Do(ctx, "PEXPIRETIME", "f").Val(); ms != at.UnixMilli() {
		t.Errorf("a filter ends at %v instead of %d", ms, at.UnixMilli())
	}
	// Next to values that keep their ends others live as long as they were told to.
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "k")
		p.Set(ctx, "session", 1, time.Hour)
		return nil
	})
	mustNil(t, err)
	if left := client.PTTL(ctx, "session").Val(); left < time.Hour-time.Minute || left > time.Hour+time.Second {
		t.Errorf("the session lasts for %v", left)
	}
	for _, far := range []string{"SETEX k 9000000000000000 1", "SET k 1 PXAT 9223372036854775807", "SET k 1 PX 9000000000000000000"} {
		mustNil(t, client.Do(ctx, split(far)...).Err())
		if ms := client.Do(ctx, "PEXPIRETIME", "k").Val(); ms != int64(281474976710655) {
			t.Errorf("%s: it ends at %v", far, ms)
		}
	}
	for _, past := range []string{"SET k 1 PXAT 1000", "SET k 1 EXAT 1", "PEXPIREAT k 1000", "EXPIREAT k 0"} {
		mustNil(t, errors.Join(client.Set(ctx, "k", 1, 0).Err(), client.Do(ctx, split(past)...).Err()))
		if n := client.Exists(ctx, "k").Val(); n != 0 {
			t.Errorf("%s: k is there", past)
		}
	}
}

// A limiter that is asked without a pause begins again when its time is over.
func TestGroup_Limiter(t *testing.T) {
	t.Parallel()
	group := three(t)
	ctx := t.Context()
	const window = 500 * time.Millisecond
	first := dial(t, group[0].addr)
	begin := time.Now()
	mustNil(t, first.Set(ctx, "limit", 0, window).Err())
	ends := first.Do(ctx, "PEXPIRETIME", "limit").Val().(int64)
	var clients sync.WaitGroup
	for _, r := range group {
		client := dial(t, r.addr)
		clients.Go(func() {
			for last := int64(0); ; {
				got, err := client.Incr(ctx, "limit").Result()
				if err != nil {
					t.Error(err)
					return
				}
				took := time.Since(begin)
				if got < last || took > window && client.PTTL(ctx, "limit").Val() == -1 { // the next counter has no end
					return
				}
				last = got
				if took > window+5*time.Second {
					t.Errorf("the limiter has %d after %v", got, took)
					return
				}
			}
		})
	}
	clients.Wait()
	if now := time.Now().UnixMilli(); now < ends {
		t.Errorf("the limiter began again at %d, and was to at %d", now, ends)
	}
}

// split returns the words of a line for go-redis.
func split(line string) (words []any) {
	for _, word := range strings.Fields(line) {
		words = append(words, word)
	}
	return words
}

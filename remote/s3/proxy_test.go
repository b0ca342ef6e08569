package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/remote/s3/s3test"
)

// through returns the bucket that c names, behind a proxy that makes faults, with the repetitions that package
// remote makes.
func through(t *testing.T, c s3.Config, decide func(proxyRequest) proxyFault) (remote.Bucket, *faultProxy) {
	t.Helper()
	p := newProxy(t, c.Endpoint, decide)
	p.Wait = 5 * time.Millisecond
	c.Endpoint = p.Addr()
	for range 100 {
		b, err := s3.New(t.Context(), c)
		if err == nil {
			return remote.Retrying(b), p
		}
		if refused := new(s3.RefusedError); errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	t.Fatal("the bucket can't be opened")
	return nil, nil
}

// TestProxy_Suite checks that a bucket behind a bad network does all that remote.Bucket says, once package remote
// repeats what fails. Only bits that flip in an answer are left out: reads are not checked by a bucket.
func TestProxy_Suite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	server := s3test.Start(t)
	c := server.Make(t, "behind")
	var n atomic.Int64
	buckettest.Run(t, func(t *testing.T) remote.Bucket {
		c := c
		c.Prefix = fmt.Sprint(n.Add(1))
		rates := evenly(0.05)
		delete(rates, FlipAnswer)
		b, _ := through(t, c, bySeed(uint64(n.Load()), rates))
		return b
	})
}

// TestProxy_Creators lets several writers create the same objects through a network that makes every fault. Of
// each object exactly one writer may believe that it has made it, and the object must be that one's: also when
// requests that were late, or were repeated on the way, arrive at the end.
func TestProxy_Creators(t *testing.T) {
	seeds, objects, writers := 3, 12, 6
	if !testing.Short() {
		seeds = 12
	}
	server := s3test.Start(t)
	c := server.Make(t, "raced")
	happened := map[proxyFault]int64{}
	for seed := range uint64(seeds) {
		c.Prefix = fmt.Sprint(seed)
		b, proxy := through(t, c, bySeed(seed, evenly(0.4)))
		believers := make([][]int, objects)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range objects {
					i = (i*5 + w) % objects // each in an order of its own
					switch err := remote.PutObject(t.Context(), b, object.StepName(uint64(i)), body(i, w), true); {
					case err == nil:
						mu.Lock()
						believers[i] = append(believers[i], w)
						mu.Unlock()
					case !errors.Is(err, remote.ErrExists):
						t.Errorf("seed %d, object %d, writer %d: %v", seed, i, w, err)
					}
				}
			})
		}
		wg.Wait()
		for range 2 {
			for i, who := range believers {
				if len(who) != 1 {
					t.Errorf("seed %d, object %d: writers %v believe that they have made it", seed, i, who)
				} else if got := read(t, b, object.StepName(uint64(i))); !bytes.Equal(got, body(i, who[0])) {
					t.Errorf("seed %d, object %d: writer %d believes that it has made it, and it is %.20q", seed, i, who[0], got)
				}
			}
			proxy.Replay(t.Context())
		}
		for _, f := range allFaults() {
			happened[f] += proxy.Happened(f)
		}
	}
	for _, f := range allFaults() {
		if happened[f] == 0 {
			t.Errorf("%v has not happened: the test shows nothing about it", f)
		}
	}
}

// body returns the bytes that writer w gives object i.
func body(i, w int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "object %d by writer %d;", i, w), 1+i*10)
}

// read returns an object through a network that flips bits. The checksum must find all of them.
func read(t *testing.T, b remote.Bucket, name string) []byte {
	t.Helper()
	for range 50 {
		got, err := remote.ReadObject(t.Context(), b, name, 1<<20)
		if err == nil {
			return got
		}
		if !errors.Is(err, remote.ErrChecksum) {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s can't be read", name)
	return nil
}

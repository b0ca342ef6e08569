package remote_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/vfs"
)

// A feed through a bucket that loses, delays, repeats, cuts and changes what passes, and that hangs, may end with an error.
// A program that goes on behind the last change gets each of them once, in order.
func TestReaderChanges_Faults(t *testing.T) {
	testenv.CheckLeaks(t)
	lives := 12
	if testing.Short() {
		lives = 3
	}
	ended, changes := 0, 0
	for seed := uint64(0); seed < uint64(lives); seed++ {
		synctest.Test(t, func(t *testing.T) {
			b := remote.NewMem()
			s, err := remote.Open(t.Context(), "db", b, &remote.Options{Ship: -1, Publish: -1, Flush: -1,
				Store: shale.Options{FS: vfs.NewMem(), MemtableSize: 64 << 10, Durability: shale.SyncManual}})
			mustNot(t, err)
			random := rand.New(rand.NewPCG(seed, 2))
			for i := range 300 {
				mustNot(t, s.DB().Put(fmt.Appendf(nil, "key%03d", i), make([]byte, random.IntN(2000))))
				if random.IntN(3) == 0 {
					mustNot(t, s.Ship(t.Context()))
				}
				if random.IntN(40) == 0 {
					mustNot(t, s.Publish(t.Context()))
				}
			}
			mustNot(t, s.Publish(t.Context()))
			calm, decide := true, buckettest.BySeed(seed, buckettest.All(0.05))
			faulty := buckettest.NewFaulty(b, time.Microsecond, func(op buckettest.Op) buckettest.Fault {
				if calm {
					return buckettest.None
				}
				return decide(op)
			})
			r, err := remote.OpenReader(t.Context(), faulty, &remote.ReaderOptions{Interval: -1, Patience: 20 * time.Millisecond, NoPins: true})
			mustNot(t, err)
			calm = false
			last := uint64(0)
			for last < r.Seq() {
				for c, err := range r.Changes(t.Context(), last) {
					if err != nil {
						if !passes(err) {
							t.Fatalf("seed %d: after %d: %v", seed, last, err)
						}
						ended++
						break
					}
					for op := range c.Ops() {
						if want := fmt.Sprintf("key%03d", last); c.Seq != last+1 || c.Last != c.Seq || string(op.Key) != want {
							t.Fatalf("seed %d: change %d to %d of %s comes after %d, want that of %s", seed, c.Seq, c.Last, op.Key, last, want)
						}
					}
					last = c.Last
					if changes++; last == r.Seq() || random.IntN(50) == 0 {
						break
					}
				}
			}
			time.Sleep(time.Minute) // what hangs ends
			mustNot(t, r.Close())
			mustNot(t, s.Close())
		})
	}
	t.Logf("%d changes came, and %d feeds have ended", changes, ended)
	if ended == 0 || changes != 300*lives {
		t.Errorf("%d changes came, and %d feeds have ended", changes, ended)
	}
}

// The end of the context, and Close, end a feed at once, also if the bucket hangs.
func TestReaderChanges_Ends(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, closes := range []bool{false, true} {
		for _, hang := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				hangs := false
				b := buckettest.NewFaulty(remote.NewMem(), time.Microsecond, func(buckettest.Op) buckettest.Fault {
					if hangs {
						return buckettest.HangBefore
					}
					return buckettest.None
				})
				s, err := remote.Open(t.Context(), "db", b, &remote.Options{Ship: -1, Publish: -1, Flush: -1, Store: shale.Options{FS: vfs.NewMem()}})
				mustNot(t, err)
				mustNot(t, s.DB().Put([]byte("k"), []byte("v")))
				mustNot(t, s.Publish(t.Context()))
				r, err := remote.OpenReader(t.Context(), b, &remote.ReaderOptions{Interval: -1, NoPins: true})
				mustNot(t, err)
				hangs = hang
				ctx, cancel := context.WithCancel(t.Context())
				begun, ended := time.Now(), make(chan error)
				go func() {
					for _, err := range r.Changes(ctx, 0) {
						if err != nil {
							ended <- err
						}
					}
				}()
				time.Sleep(time.Second)
				want := context.Canceled
				if closes {
					want = shale.ErrClosed
					mustNot(t, r.Close())
				} else {
					cancel()
				}
				if err := <-ended; !errors.Is(err, want) || time.Since(begun) > 2*time.Second {
					t.Errorf("closes %v, hang %v: the feed ends after %v with %v, want %v", closes, hang, time.Since(begun), err, want)
				}
				cancel()
				hangs = false
				if !closes {
					mustNot(t, r.Close())
				}
				for range r.Changes(t.Context(), 0) { // it ends
				}
				mustNot(t, s.Close())
			})
		}
	}
}

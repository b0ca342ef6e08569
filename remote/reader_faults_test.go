package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/vfs"
)

// TestReader_Faults reads through a bucket that loses, delays, repeats, cuts and changes what passes, and that hangs. A read may fail,
// but what it shows is right, and after the faults everything is there.
func TestReader_Faults(t *testing.T) {
	testenv.CheckLeaks(t)
	lives := 12
	if testing.Short() {
		lives = 3
	}
	if testenv.Long(t) > 0 {
		lives = 300
	}
	// Most reads are answered from memory, so a few lives may see no failure. More lives follow then.
	failed, right := 0, 0
	for seed := uint64(0); seed < uint64(lives) || failed == 0 && seed < 30; seed++ {
		synctest.Test(t, func(t *testing.T) {
			b := remote.NewMem()
			s, err := remote.Open(t.Context(), "db", b, &remote.Options{Ship: -1, Publish: -1, Flush: -1,
				Store: shale.Options{FS: vfs.NewMem(), MemtableSize: 256 << 10, TableSize: 512 << 10, Durability: shale.SyncManual}})
			mustNot(t, err)
			random := rand.New(rand.NewPCG(seed, 1))
			commit := func(i int) {
				var batch shale.Batch
				for k := range 30 {
					v := make([]byte, 6000)
					for j := range v {
						v[j] = byte(random.Uint32())
					}
					mustNot(t, batch.Put(fmt.Appendf(nil, "key%02d", k), append(fmt.Appendf(nil, "%8d", i), v...)))
				}
				mustNot(t, s.DB().Write(t.Context(), &batch))
			}
			commit(0)
			mustNot(t, s.Publish(t.Context()))
			calm := false
			decide := buckettest.BySeed(seed, buckettest.Rates{buckettest.DropBefore: 0.05, buckettest.DropAfter: 0.05, buckettest.Delay: 0.05,
				buckettest.Conflict: 0.05, buckettest.Cut: 0.05, buckettest.Flip: 0.05, buckettest.Late: 0.02, buckettest.Duplicate: 0.02,
				buckettest.HangBefore: 0.02, buckettest.HangBody: 0.02, buckettest.HangAfter: 0.02})
			faulty := buckettest.NewFaulty(b, time.Microsecond, func(op buckettest.Op) buckettest.Fault {
				if calm {
					return buckettest.None
				}
				return decide(op)
			})
			var r *remote.Reader
			for tries := 0; r == nil; tries++ {
				r, err = remote.OpenReader(t.Context(), faulty, &remote.ReaderOptions{Interval: -1, Patience: 20 * time.Millisecond, CacheBytes: 256 << 10,
					Store: shale.Options{CacheSize: -1, OnEvent: func(shale.Event) {}}})
				if err != nil && (!passes(err) || tries > 2000) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			shown := 0
			look := func(atLeast int) {
				for k := range 30 {
					v, err := r.Get(fmt.Appendf(nil, "key%02d", k))
					if err != nil {
						if !passes(err) || calm {
							t.Fatalf("seed %d: Get: %v", seed, err)
						}
						failed++
						continue
					}
					right++
					var i int
					if _, err := fmt.Sscan(string(v[:8]), &i); err != nil || i < max(shown, atLeast) {
						t.Fatalf("seed %d: Get shows commit %d after %d, %v", seed, i, max(shown, atLeast), err)
					}
					shown = i
				}
				first := ""
				for e, err := range r.Scan(shale.Range{}) {
					if err != nil {
						if !passes(err) || calm {
							t.Fatalf("seed %d: Scan: %v", seed, err)
						}
						failed++
						break
					}
					if first == "" {
						first = string(e.Value[:8])
					}
					if string(e.Value[:8]) != first {
						t.Fatalf("seed %d: a scan shows %s and %s", seed, first, e.Value[:8])
					}
				}
			}
			for i := 1; i < 40; i++ {
				commit(i)
				if random.IntN(4) == 0 {
					mustNot(t, s.Publish(t.Context()))
				} else {
					mustNot(t, s.Ship(t.Context()))
				}
				if err := r.Refresh(t.Context()); err != nil && !passes(err) {
					t.Fatalf("seed %d: Refresh: %v", seed, err)
				}
				look(0)
				if snapshot, err := r.Snapshot(t.Context()); err == nil {
					mustNot(t, snapshot.Close())
				} else if !passes(err) {
					t.Fatalf("seed %d: Snapshot: %v", seed, err)
				}
			}
			calm = true
			faulty.Replay(t.Context())
			time.Sleep(time.Minute) // what hangs ends, such as what is read ahead
			mustNot(t, s.Ship(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			mustNot(t, r.WaitFor(ctx, shale.ShippingOf(s.DB()).Position().LastSeq))
			cancel()
			look(39)
			mustNot(t, r.Close())
			mustNot(t, s.Close())
		})
	}
	t.Logf("%d reads failed and %d were right", failed, right)
	if failed == 0 || right < 10*failed {
		t.Errorf("%d reads failed and %d were right", failed, right)
	}
}

// passes reports whether an error may come from a fault.
func passes(err error) bool {
	var c *shale.CorruptionError
	return errors.As(err, &c) || errors.Is(err, buckettest.ErrDropped) || errors.Is(err, buckettest.ErrConflict) ||
		strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) || errors.Is(err, remote.ErrSnapshotGone) || errors.Is(err, remote.ErrChecksum) ||
		errors.Is(err, os.ErrDeadlineExceeded)
}

func mustNot(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

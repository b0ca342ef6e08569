package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/vfs"
)

// A bucket loses requests and answers, and cuts and flips what passes through it. A restore gives the right
// data all the same, or an error and no store. Most of the time it gives the data. If an object was damaged on the way
// each time that it was read, the restore says so, and the data is that of the point to which it has come.
func TestRestore_ThroughFaults(t *testing.T) {
	ctx := context.Background()
	b := remote.NewMem()
	s, err := remote.Open(ctx, "store", b, &remote.Options{Ship: -1, Publish: -1, Flush: -1,
		Store: shale.Options{FS: vfs.NewMem(), MemtableSize: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if err := s.DB().Put(fmt.Appendf(nil, "k%05d", i%1500), fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
		if i%500 == 100 {
			if err := s.Publish(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(s.Ship(ctx), s.Close()); err != nil {
		t.Fatal(err)
	}
	restored := 0
	const seeds = 12
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			faulty := buckettest.NewFaulty(b, time.Millisecond, buckettest.BySeed(seed, buckettest.All(0.15)))
			r, err := remote.Restore(t.Context(), faulty, "to", remote.At{}, &remote.RestoreOptions{FS: disk})
			if err != nil {
				if _, serr := disk.Stat("to/CURRENT"); !errors.Is(serr, fs.ErrNotExist) {
					t.Fatalf("%v, but there is a store: %v", err, serr)
				}
				t.Log(err)
				return
			}
			n := 2000
			if len(r.Damage) > 0 && r.Left.Why != "" {
				n = int(r.At.Seq)
			} else {
				restored++
			}
			db, err := shale.Open("to", &shale.Options{FS: disk, Exist: shale.MustExist})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for i := range 1500 {
				want, there := i, i < n
				if i+1500 < n {
					want += 1500
				}
				v, err := db.Get(fmt.Appendf(nil, "k%05d", i))
				if there && (err != nil || string(v) != fmt.Sprint(want)) || !there && !errors.Is(err, shale.ErrNotFound) {
					t.Fatalf("restored %+v: key %d is %q, %v; want %d, %v", r, i, v, err, want, there)
				}
			}
		})
	}
	t.Logf("%d of %d were restored", restored, seeds)
	if restored < seeds/2 {
		t.Errorf("only %d of %d were restored", restored, seeds)
	}
}

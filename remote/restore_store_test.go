package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// A kept is a store that Open keeps in a bucket, with a model of what it held after each of its batches.
type kept struct {
	shipped // the model, and the restores of the bucket
	store   *Store
	line    *remotetest.Fake // to the bucket
}

// opened opens the store of a disk. Its line to the bucket can be cut, as that of a machine that loses its power.
func (k *kept) opened(disk *vfs.Mem) {
	k.t.Helper()
	k.disk = disk
	o := manual(disk)
	o.Store.Durability = shale.SyncEach
	var err error
	k.line = remotetest.NewFake(k.b)
	k.store, err = Open(context.Background(), shippedDir, k.line, o)
	mustNil(k.t, err)
	k.db, k.storeID = k.store.DB(), k.store.id
}

// cut cuts the line: every call fails for good.
func (k *kept) cut() {
	k.line.Refuse("", "")
}

// sync ships and publishes.
func (k *kept) sync() {
	k.t.Helper()
	mustNil(k.t, k.store.Ship(context.Background()))
	mustNil(k.t, k.store.Publish(context.Background()))
}

// lose takes back the commits behind a sequence number.
func (k *kept) lose(seq uint64) {
	for k.commits[len(k.commits)-1].seq > seq {
		k.commits = k.commits[:len(k.commits)-1]
	}
}

// takenOver restores the newest point on another disk, and goes on there. The old store is left as it is.
func (k *kept) takenOver() {
	k.t.Helper()
	disk := vfs.NewMem()
	r, err := Restore(context.Background(), k.b, shippedDir, At{}, &RestoreOptions{FS: disk})
	if err != nil && strings.Contains(err.Error(), "nothing can be restored yet") {
		return // the first log was lost before anything was published
	}
	mustNil(k.t, err)
	if r.Left != (LeftOut{}) {
		k.t.Fatalf("the newest point leaves %+v", r.Left)
	}
	old := k.store
	k.opened(disk)
	k.lose(r.At.Seq)
	if err := old.Ship(context.Background()); err == nil {
		mustNil(k.t, old.DB().Put([]byte("zombie"), nil))
		if err = old.Ship(context.Background()); err == nil {
			k.t.Fatal("the old writer ships on")
		}
	}
	_ = old.Close() // it is fenced
	k.compareNow("taken over")
}

// compareNow compares the open store with the model.
func (k *kept) compareNow(what string) {
	k.t.Helper()
	sameMap(k.t, what, contents(k.t, k.db), k.held())
}

// Stores that Open keeps in a bucket live through closing, crashes of the machine, and takeovers by a
// directory that was restored. Every point of their lives can be restored.
func TestRestore_StoresThatOpenKeeps(t *testing.T) {
	testenv.CheckLeaks(t)
	limit, isLong := long(t)
	lives := uint64(3)
	if isLong {
		lives = uint64(max(3, limit.Seconds()))
	}
	restored, refused := 0, 0
	for seed := uint64(1); seed <= lives; seed++ {
		k := &kept{shipped: shipped{t: t, rng: rand.New(rand.NewPCG(seed, 9)), b: NewMem(), commits: []commit{{0, map[string]string{}}}}}
		k.opened(vfs.NewMem())
		for range 45 {
			switch x := k.rng.IntN(100); {
			case x < 45:
				k.write(1 + k.rng.IntN(4))
			case x < 55:
				k.ingest()
				k.sync()
			case x < 65:
				mustNil(t, k.db.Flush(t.Context()))
			case x < 69:
				mustNil(t, k.db.Compact(t.Context(), shale.Range{}))
			case x < 80:
				mustNil(t, k.store.Ship(t.Context()))
			case x < 90:
				k.sync()
			case x < 94:
				mustNil(t, k.store.Close())
				k.opened(k.disk)
				k.compareNow("opened again")
			case x < 97:
				// The machine loses its power, and the directory goes on.
				disk := k.disk.Crash(vfs.CrashConfig{Policy: vfs.CrashPolicy(k.rng.IntN(6)), Seed: seed})
				old := k.store
				k.cut()
				k.opened(disk)
				k.compareNow("after a crash")
				_ = old.Close() // its machine is gone
			default:
				k.takenOver()
			}
		}
		k.sync()
		last := k.commits[len(k.commits)-1].seq
		for seq := 1 + seed%3; seq <= last; seq += 3 {
			if k.check(At{Seq: seq}) {
				restored++
			} else {
				refused++
			}
		}
		newest, err := chain.NewestStep(t.Context(), k.b, 0)
		mustNil(t, err)
		for n := uint64(1); n <= newest; n++ {
			if k.check(At{Step: n}) {
				restored++
			} else {
				refused++
			}
		}
		r, held, err := k.restored(At{})
		mustNil(t, err)
		k.compare(At{}, r, held)
		if r.At.Seq != last || r.Left != (LeftOut{}) {
			t.Errorf("life %d: the newest point: %+v, want %d", seed, r, last)
		}
		report, err := Verify(t.Context(), k.b, true)
		mustNil(t, err)
		if len(report.Findings) > 0 {
			t.Errorf("life %d: Verify: %v", seed, report.Findings)
		}
		mustNil(t, k.store.Close())
	}
	t.Logf("%d points were restored, %d refused", restored, refused)
	if refused*20 > restored {
		t.Errorf("%d points were refused, and %d restored", refused, restored)
	}
}

// random takes some steps of a life.
func (k *kept) random(steps int) {
	k.t.Helper()
	for range steps {
		switch x := k.rng.IntN(10); {
		case x < 6:
			k.write(1 + k.rng.IntN(4))
		case x < 7:
			k.ingest()
			k.sync()
		case x < 8:
			mustNil(k.t, k.db.Flush(context.Background()))
		case x < 9:
			mustNil(k.t, k.db.Compact(context.Background(), shale.Range{}))
		default:
			k.sync()
		}
	}
	k.sync()
}

// A store is verified and restored while it is written. Nothing is wrong with it at any time.
func TestVerify_BesideTheWriter(t *testing.T) {
	testenv.CheckLeaks(t)
	k := &kept{shipped: shipped{t: t, rng: rand.New(rand.NewPCG(1, 9)), b: NewMem(), commits: []commit{{0, map[string]string{}}}}}
	k.opened(vfs.NewMem())
	k.write(3)
	k.sync()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !t.Failed() && len(k.commits) < 400 {
			k.random(5)
		}
	}()
	looks := 0
	for running := true; running; looks++ {
		select {
		case <-done:
			running = false
		default:
		}
		report, err := Verify(t.Context(), k.b, looks%3 == 0)
		if err != nil || len(report.Findings) > 0 {
			t.Errorf("look %d: %v, %v", looks, report.Findings, err)
			break
		}
		if _, _, err := k.restored(At{}); err != nil {
			t.Errorf("look %d: %v", looks, err)
			break
		}
	}
	<-done
	mustNil(t, k.store.Close())
	t.Logf("%d looks", looks)
}

// A store that was restored to the past can't take its bucket over, and goes on in another one.
func TestRestore_PastGoesOnElsewhere(t *testing.T) {
	k := &kept{shipped: shipped{t: t, rng: rand.New(rand.NewPCG(2, 9)), b: NewMem(), commits: []commit{{0, map[string]string{}}}}}
	k.opened(vfs.NewMem())
	k.random(20)
	mustNil(t, k.store.Close())
	past := k.commits[len(k.commits)/2]
	disk, other := vfs.NewMem(), NewMem()
	_, err := Restore(t.Context(), k.b, shippedDir, At{Seq: past.seq}, &RestoreOptions{FS: disk})
	mustNil(t, err)
	if s, err := Open(t.Context(), shippedDir, k.b, manual(disk)); !errors.Is(err, ErrFenced) {
		t.Fatalf("the past takes over: %v, %v", s, err)
	}
	k.b = other
	k.opened(disk)
	k.lose(past.seq)
	k.compareNow("in another bucket")
	k.random(10)
	r, held, err := k.restored(At{})
	mustNil(t, err)
	k.compare(At{}, r, held)
	mustNil(t, k.store.Close())
}

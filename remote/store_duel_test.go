package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// cloneOf returns a copy of a bucket in memory.
func cloneOf(b Bucket) Bucket {
	c := NewMem()
	for info, err := range b.List(context.Background(), "", "") {
		var data []byte
		if err == nil {
			data, err = ReadObject(context.Background(), b, info.Name, info.Size)
		}
		if err = errors.Join(err, PutObject(context.Background(), c, info.Name, data, true)); err != nil {
			panic(err)
		}
	}
	return c
}

// A duelist is one of two processes with the same directory, or copies of it.
type duelist struct {
	name   string
	fsys   *vfs.Mem
	bucket *remotetest.Fake
	strict bool
	takes  bool // it restores the store into a new directory, and takes it over
	clears bool // it collects what it can

	stopAt  int           // the call of the bucket before which it stops; 0: it does not
	stopped chan struct{} // closed when it has stopped, or ended
	resume  chan struct{} // closed when it may go on
	once    sync.Once

	acked   []string // keys whose writes were acknowledged
	shipped int      // how many of these were acknowledged before a Ship that succeeded
	err     error    // what has ended it early
}

func newDuelist(name string, fsys *vfs.Mem, b Bucket, strict bool, stopAt int) *duelist {
	d := &duelist{name: name, fsys: fsys, bucket: remotetest.NewFake(b), strict: strict, stopAt: stopAt, stopped: make(chan struct{}), resume: make(chan struct{})}
	calls := 0
	var mu sync.Mutex
	d.bucket.Hook(func(call, name string) error {
		mu.Lock()
		calls++
		stop := calls == d.stopAt
		mu.Unlock()
		if stop {
			d.once.Do(func() { close(d.stopped) })
			<-d.resume
		}
		return nil
	}, nil)
	return d
}

// run opens the store, writes, ships and publishes, and ends at the first error.
func (d *duelist) run() {
	defer d.once.Do(func() { close(d.stopped) })
	ctx := context.Background()
	o := manual(d.fsys)
	o.Strict = d.strict
	o.Retain = 1
	o.testing.closeWait = 10 * time.Millisecond
	s, err := d.open(ctx, o)
	if err != nil {
		d.err = err
		return
	}
	defer func() { _ = s.Close() }()
	for i := range 6 {
		key := fmt.Sprintf("%s%d", d.name, i)
		if d.err = s.DB().Put([]byte(key), []byte("x")); d.err != nil {
			return
		}
		d.acked = append(d.acked, key)
		switch i {
		case 1:
			d.err = s.DB().Flush(ctx)
		case 2, 5:
			d.err = s.Publish(ctx)
		case 3:
			d.err = s.Ship(ctx)
		case 4:
			if d.clears {
				_, d.err = s.Collect(ctx)
			}
		}
		if d.err != nil {
			return
		}
		if i == 2 || i == 3 || i == 5 || d.strict {
			d.shipped = len(d.acked)
		}
	}
}

// open opens the store. If the other one is faster in the middle of it, it restores and opens again.
func (d *duelist) open(ctx context.Context, o *Options) (*Store, error) {
	if !d.takes {
		return Open(ctx, "db", d.bucket, o)
	}
	for try := 1; ; try++ {
		d.fsys = vfs.NewMem()
		o.Store.FS = d.fsys
		if _, err := Restore(ctx, d.bucket, "db", At{}, &RestoreOptions{FS: d.fsys}); err != nil {
			if d.clears && try < 5 {
				continue // the other one has collected meanwhile: nothing is retained here
			}
			return nil, err
		}
		s, err := Open(ctx, "db", d.bucket, o)
		if err == nil || try == 5 || !errors.Is(err, ErrFenced) {
			return s, err
		}
	}
}

// check reports whether the duelist has ended early because it was fenced. Any other error fails the
// test.
func (d *duelist) check(t *testing.T, what string) (lost bool) {
	if d.err == nil {
		return false
	}
	if !errors.Is(d.err, ErrFenced) {
		t.Fatalf("%s: %s ends with %v", what, d.name, d.err)
	}
	return true
}

// duel lets a writer A stop before one of its calls of the bucket, and a writer B with a copy of its
// directory come up to one of its own. Then A goes on to its end, and then B. Nothing that
// was acknowledged and shipped may be missing in the bucket.
func duel(t *testing.T, fsys *vfs.Mem, bucket Bucket, strict, takes, clears bool, stopA, stopB int) (calls [2]int) {
	t.Helper()
	what := fmt.Sprintf("strict %v, takes over %v, collects %v, A stops before its call %d, B before its call %d", strict, takes, clears, stopA, stopB)
	b := cloneOf(bucket)
	a := newDuelist("a", copyOf(fsys), b, strict, stopA)
	a.clears = clears
	var doneA, doneB sync.WaitGroup
	doneA.Go(a.run)
	<-a.stopped
	z := newDuelist("b", copyOf(a.fsys), b, strict, stopB)
	z.takes, z.clears = takes, clears
	doneB.Go(z.run)
	<-z.stopped
	close(a.resume)
	doneA.Wait()
	close(z.resume)
	doneB.Wait()
	lostA, lostB := a.check(t, what), z.check(t, what)
	if lostA && lostB && stopB == 0 {
		t.Fatalf("%s: nobody owns the store: %v; %v", what, a.err, z.err)
	}
	got := restoredContents(t, b)
	if report, err := Verify(t.Context(), b, true); err != nil || len(report.Findings) > 0 {
		t.Fatalf("%s: Verify = %v, %v", what, report.Findings, err)
	}
	for _, d := range []*duelist{a, z} {
		for _, key := range d.acked[:d.shipped] {
			if got[key] == "" {
				t.Fatalf("%s: the write of %s was acknowledged and shipped, and is not in the bucket", what, key)
			}
		}
	}
	return [2]int{a.bucket.Count("", ""), z.bucket.Count("", "")}
}

// TestStore_Duels makes pairs of places where a writer and its successor may stop: a share of them, other ones each time, and
// with SHALE_LONG all.
func TestStore_Duels(t *testing.T) {
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	share := testenv.ShareOf(t, seed, 1.0/149)
	if testenv.Long(t) > 0 {
		share.Part = 1
	}
	fsys, bucket := vfs.NewMem(), NewMem()
	s := openStore(t, "db", bucket, manual(fsys))
	put(t, s, map[string]string{}, "old", 10)
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, s.Close())
	pairs, all := 0, uint64(0)
	for mode := range 8 {
		strict, takes, clears := mode&1 == 0, mode&2 != 0, mode&4 != 0
		calls := duel(t, fsys, bucket, strict, takes, clears, 0, 0)
		for a := 1; a <= calls[0]+1; a++ {
			for b := 0; b <= calls[1]+1; b++ {
				if all++; share.Takes(all) {
					duel(t, fsys, bucket, strict, takes, clears, a, b)
					pairs++
				}
			}
		}
		if share.Part > 0.1 {
			t.Logf("strict %v, takes over %v, collects %v: %d of %d pairs so far", strict, takes, clears, pairs, all)
		}
	}
	t.Logf("%d of %d pairs", pairs, all)
}

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// calls are all calls of a bucket, about objects of 4 MiB.
var calls = map[buckettest.Call]func(ctx context.Context, b remote.Bucket) error{
	buckettest.Put: func(ctx context.Context, b remote.Bucket) error {
		return remote.PutObject(ctx, b, "new", make([]byte, 4<<20), true)
	},
	buckettest.ReadAt: func(ctx context.Context, b remote.Bucket) error {
		_, err := b.ReadAt(ctx, "old", make([]byte, 4<<20), 0)
		return err
	},
	buckettest.Stat: func(ctx context.Context, b remote.Bucket) error {
		_, err := b.Stat(ctx, "old")
		return err
	},
	buckettest.Delete: func(ctx context.Context, b remote.Bucket) error { return b.Delete(ctx, "old") },
	buckettest.List: func(ctx context.Context, b remote.Bucket) (err error) {
		for _, err = range b.List(ctx, "", "") {
		}
		return err
	},
}

var hangs = []buckettest.Fault{buckettest.HangBefore, buckettest.HangBody, buckettest.HangAfter}

// TestRetry_Hangs lets each call hang, once and for ever. Once, the second attempt does it. For ever, the call ends
// after its patience and the time that its bytes may take, and says so. The caller's context ends it at once.
func TestRetry_Hangs(t *testing.T) {
	for call, do := range calls {
		for _, fault := range hangs {
			if fault == buckettest.HangBody && (call == buckettest.Stat || call == buckettest.Delete) {
				continue // they have none
			}
			synctest.Test(t, func(t *testing.T) {
				bytes := time.Duration(0) // the time that they may take
				switch call {
				case buckettest.Put, buckettest.ReadAt:
					bytes = 16 * time.Second
				case buckettest.List:
					bytes = 4 * time.Second
				}
				mem := remote.NewMem()
				mustNot(t, remote.PutObject(t.Context(), mem, "old", make([]byte, 4<<20), true))
				begun := time.Now()
				if err := do(t.Context(), remote.Retrying(buckettest.NewFaulty(mem, 0, buckettest.At(call, 1, fault)))); err != nil {
					t.Errorf("%v, %v once: %v", call, fault, err)
				}
				if took := time.Since(begun); took != 5*time.Second+bytes+50*time.Millisecond {
					t.Errorf("%v, %v once: it took %v", call, fault, took)
				}
				always := buckettest.NewFaulty(mem, 0, func(buckettest.Op) buckettest.Fault { return fault })
				begun = time.Now()
				err := do(t.Context(), remote.Retrying(always))
				if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took < 25*time.Second || took > 31*time.Second+3*bytes {
					t.Errorf("%v, %v: %v after %v", call, fault, err, took)
				}
				if n := always.Count(call); n != 3 {
					t.Errorf("%v, %v: %d attempts", call, fault, n)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun = time.Now()
				if err := do(ctx, remote.Retrying(always)); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
					t.Errorf("%v, %v: the context ends after a second: %v after %v", call, fault, err, time.Since(begun))
				}
			})
		}
	}
}

// A slow bucket has seconds for each call. It says that bytes move, up to some second.
type slow struct {
	remote.Bucket
	seconds, moves int
	begun          atomic.Int64 // calls
}

func (s *slow) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	s.begun.Add(1)
	for i := range s.seconds {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if i < s.moves {
			remote.Progress(ctx)
		}
	}
	return s.Bucket.Put(ctx, name, body, size, crc32c, absent)
}

// TestRetry_SlowIsNotHung checks that a call is not ended as long as bytes move, or while the caller looks at what a list
// has brought; and that a server with slow answers is given more time.
func TestRetry_SlowIsNotHung(t *testing.T) {
	put := func(t *testing.T, s *slow, attempts int64) {
		t.Helper()
		s.Bucket = remote.NewMem()
		if err := remote.PutObject(t.Context(), remote.Retrying(s), "new", nil, true); err != nil || s.begun.Load() != attempts {
			t.Errorf("%d seconds, in %d of which bytes move: %v after %d attempts", s.seconds, s.moves, err, s.begun.Load())
		}
	}
	synctest.Test(t, func(t *testing.T) {
		put(t, &slow{seconds: 3600, moves: 3596}, 1)
		put(t, &slow{seconds: 4}, 1)
		put(t, &slow{seconds: 9}, 2)
		put(t, &slow{seconds: 14}, 3)
		b := remote.NewMem()
		for i := range uint64(3) {
			mustNot(t, remote.PutObject(t.Context(), b, object.StepName(i+1), nil, true))
		}
		counted := buckettest.NewFaulty(b, 0, nil)
		n := 0
		for _, err := range remote.Retrying(counted).List(t.Context(), "", "") {
			mustNot(t, err)
			time.Sleep(time.Hour)
			n++
		}
		if n != 3 || counted.Count(buckettest.List) != 1 {
			t.Errorf("%d objects by %d lists", n, counted.Count(buckettest.List))
		}
	})
}

// A dead bucket does not answer any call that begins while it hangs, ever.
type dead struct {
	*buckettest.Faulty
	hangs atomic.Bool
}

func newDead(b remote.Bucket) *dead {
	d := new(dead)
	d.Faulty = buckettest.NewFaulty(b, 0, func(buckettest.Op) buckettest.Fault {
		if d.hangs.Load() {
			return buckettest.HangBefore
		}
		return buckettest.None
	})
	return d
}

// awayEvents are the events that say that a bucket is away, or back.
type awayEvents struct {
	mu   sync.Mutex
	told []remote.EventKind
}

func (a *awayEvents) hear(e remote.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Kind == remote.EventAway || e.Kind == remote.EventBack {
		a.told = append(a.told, e.Kind)
	}
}

func (a *awayEvents) kinds() []remote.EventKind {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.told)
}

// TestStore_BucketIsDeaf: there is an event when a bucket does not return, and another when it does.
func TestStore_BucketIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told awayEvents
		mem := remote.NewMem()
		var wait atomic.Pointer[chan struct{}] // puts wait until it is closed, and do not look at their contexts, as on a mount that hangs
		b := &remotetest.Fake{Bucket: mem, Instead: remotetest.Instead{
			OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
				if c := wait.Load(); c != nil {
					<-*c
				}
				return mem.Put(context.WithoutCancel(ctx), name, body, size, crc32c, absent)
			},
		}}
		s, err := remote.Open(t.Context(), "db", b, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}, OnEvent: told.hear})
		mustNot(t, err)
		defer s.Close()
		mustNot(t, s.DB().Put([]byte("a"), nil))
		time.Sleep(time.Minute)
		hung := make(chan struct{})
		wait.Store(&hung)
		mustNot(t, s.DB().Put([]byte("b"), nil))
		time.Sleep(15 * time.Second)
		if now := s.Status(); !errors.Is(now.Away, os.ErrDeadlineExceeded) {
			t.Errorf("after 15 s: away %v", now.Away)
		}
		wait.Store(nil)
		close(hung)
		time.Sleep(time.Minute)
		if now := s.Status(); now.Away != nil || now.Lag.Shipped != now.Lag.Seq {
			t.Errorf("at the end: %+v", now)
		}
		if events, want := told.kinds(), []remote.EventKind{remote.EventAway, remote.EventBack}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
	})
}

// TestStore_BucketHangs has a bucket that hangs for two seconds, and for ten minutes. A strict write takes some seconds more
// than that, and what hangs counts as away, until an answer has come.
func TestStore_BucketHangs(t *testing.T) {
	for _, strict := range []bool{true, false} {
		for _, hung := range []time.Duration{2 * time.Second, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				var told awayEvents
				b := newDead(remote.NewMem())
				s, err := remote.Open(t.Context(), "db", b, &remote.Options{Strict: strict, Store: shale.Options{FS: vfs.NewMem()},
					OnEvent: told.hear})
				mustNot(t, err)
				defer s.Close()
				mustNot(t, s.DB().Put([]byte("a"), nil))
				time.Sleep(time.Minute + time.Second/2)
				b.hangs.Store(true)
				time.AfterFunc(hung, func() { b.hangs.Store(false) })
				begun := time.Now()
				var took time.Duration
				written := make(chan error, 1)
				go func() {
					err := s.DB().Put([]byte("b"), nil)
					took = time.Since(begun)
					written <- err
				}()
				time.Sleep(4 * time.Second)
				if now := s.Status(); now.Away != nil {
					t.Errorf("strict %v, hung for %v: away after 4 s: %v", strict, hung, now.Away)
				}
				time.Sleep(2 * time.Second)
				if now := s.Status(); hung > time.Minute && (!errors.Is(now.Away, os.ErrDeadlineExceeded) || time.Since(now.Since) > 6*time.Second) {
					t.Errorf("strict %v, hung for %v: after 6 s: away %v since %v", strict, hung, now.Away, now.Since)
				}
				mustNot(t, <-written)
				time.Sleep(hung + time.Minute - time.Since(begun))
				if strict && (took < hung || took > hung+31*time.Second || hung < time.Minute && took > 8*time.Second) || !strict && took > 0 {
					t.Errorf("strict %v, hung for %v: the write took %v", strict, hung, took)
				}
				if now := s.Status(); now.Away != nil || now.Lag.Shipped != now.Lag.Seq {
					t.Errorf("strict %v, hung for %v: at the end: %+v", strict, hung, now)
				}
				if events, want := told.kinds(), []remote.EventKind{remote.EventAway, remote.EventBack}; !slices.Equal(events, want) {
					t.Errorf("strict %v, hung for %v: events %v, want %v", strict, hung, events, want)
				}
			})
		}
	}
}

// TestStore_CloseWhileHung checks that Close and the contexts of calls end what hangs, and that the rest is shipped later.
func TestStore_CloseWhileHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, fsys := newDead(remote.NewMem()), vfs.NewMem()
		o := &remote.Options{Strict: true, Store: shale.Options{FS: fsys}}
		s, err := remote.Open(t.Context(), "db", b, o)
		mustNot(t, err)
		b.hangs.Store(true)
		written := make(chan error, 1)
		go func() { written <- s.DB().Put([]byte("late"), nil) }()
		time.Sleep(time.Second)
		for what, call := range map[string]func(context.Context) error{"Ship": s.Ship, "Publish": s.Publish} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begun := time.Now()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Errorf("%s: %v after %v", what, err, time.Since(begun))
			}
			cancel()
		}
		begun := time.Now()
		if err := s.Close(); err == nil || time.Since(begun) > 15*time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(begun))
		}
		if err := <-written; !errors.Is(err, remote.ErrClosed) {
			t.Errorf("the write that waited: %v", err)
		}
		b.hangs.Store(false)
		s, err = remote.Open(t.Context(), "db", b, o)
		mustNot(t, err)
		defer s.Close()
		if ok, err := s.DB().Has([]byte("late")); !ok || err != nil {
			t.Errorf("the write that waited is lost: %v", err)
		}
	})
}

// TestReader_BucketHangs checks what a Reader does while nothing answers: it knows of absent keys, the reads of others end
// after Patience with an error that is no damage, and all goes on by itself.
func TestReader_BucketHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 6 * time.Second
		mem := remote.NewMem()
		b := newDead(mem)
		s, err := remote.Open(t.Context(), "db", mem, &remote.Options{Store: shale.Options{FS: vfs.NewMem()}})
		mustNot(t, err)
		defer s.Close()
		for i := range 20_000 {
			mustNot(t, s.DB().Put(fmt.Appendf(nil, "key%05d", i), make([]byte, 100)))
		}
		mustNot(t, s.DB().Flush(t.Context()))
		mustNot(t, s.Publish(t.Context()))
		var away, back atomic.Int64
		r, err := remote.OpenReader(t.Context(), b, &remote.ReaderOptions{Patience: patience, CacheBytes: -1, Store: shale.Options{CacheSize: -1},
			OnEvent: func(e remote.Event) {
				switch e.Kind {
				case remote.EventAway:
					away.Add(1)
				case remote.EventBack:
					back.Add(1)
				}
			}})
		mustNot(t, err)
		b.hangs.Store(true)
		mustNot(t, s.DB().Put([]byte("news"), nil))
		begun := time.Now()
		if ok, err := r.Has([]byte("key00000/")); ok || err != nil || time.Since(begun) > 0 {
			t.Errorf("an absent key: %v, %v after %v", ok, err, time.Since(begun))
		}
		var damage *shale.CorruptionError
		_, err = r.Get([]byte("key00000"))
		if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &damage) || took < patience/2 || took > patience+2*time.Second {
			t.Errorf("a present key: %v after %v", err, took)
		}
		begun = time.Now()
		err = nil
		for _, err = range r.Scan(shale.Range{}) {
		}
		if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &damage) || took > 2*patience {
			t.Errorf("a scan: %v after %v", err, took)
		}
		time.Sleep(time.Minute)
		if away.Load() != 1 || back.Load() != 0 || r.Lag().Time < time.Minute || !errors.Is(r.Lag().Err, os.ErrDeadlineExceeded) {
			t.Errorf("after a minute: %d and %d events, %+v", away.Load(), back.Load(), r.Lag())
		}
		b.hangs.Store(false)
		time.Sleep(patience + time.Second)
		if ok, err := r.Has([]byte("news")); !ok || err != nil || back.Load() != 1 {
			t.Errorf("what was written meanwhile: %v, %v; %d events", ok, err, back.Load())
		}
		if _, err := r.Get([]byte("key00000")); err != nil {
			t.Error(err)
		}
		b.hangs.Store(true)
		go func() {
			if _, err := r.Get([]byte("key10000")); err != shale.ErrClosed {
				t.Errorf("a read that hangs while the reader is closed: %v", err)
			}
		}()
		time.Sleep(2 * time.Second)
		begun = time.Now()
		if err := r.Close(); err != nil || time.Since(begun) > 3*time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(begun))
		}
	})
}

package remote

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// readerBeside returns a bucket whose GETs a test may answer itself, its writer, and a Reader that looks only when it is
// asked to.
func readerBeside(t *testing.T, opts ReaderOptions) (*remotetest.Fake, *testWriter, *Reader) {
	t.Helper()
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 31, shale.Options{})
	w.commit(w.randomChanges())
	w.publish()
	opts.Interval, opts.Store.OnEvent = -1, func(shale.Event) {}
	return b, w, openTestReader(t, b, opts)
}

// within fails the test if fn takes longer than anything in this file should, and ends the process then: fn can't be
// ended.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s has not returned after 20 s", what)
	}
}

// TestReader_ContextEndsBeforeAdvance ends the context of a Refresh when the segment is there and the handle has not
// advanced. The next Refresh, which finds nothing new in the bucket, must show the segment, and so must a Snapshot.
func TestReader_ContextEndsBeforeAdvance(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		b, w, r := readerBeside(t, ReaderOptions{})
		w.commit(w.randomChanges())
		w.ship()
		last := shale.ShippingOf(w.db).Position().LastSeq
		ctx, cancel := context.WithCancel(t.Context())
		b.OnAnswer(func(name string, p []byte, _ int64) {
			if remotetest.FolderOf(name) == object.SegmentFolder && len(p) > 0 {
				cancel()
			}
		})
		if err := r.Refresh(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Refresh: %v", err)
		}
		b.OnAnswer(nil)
		if err := r.Lag().Err; err != nil {
			t.Errorf("the caller's context is taken for an error of the bucket: %v", err)
		}
		if snapshot {
			s, err := r.Snapshot(t.Context())
			mustNil(t, err)
			w.check(s, last)
			mustNil(t, s.Close())
		}
		mustNil(t, r.Refresh(t.Context()))
		if r.Seq() != last {
			t.Fatalf("the Reader shows %d, the bucket has %d", r.Seq(), last)
		}
		w.check(r, last)
	}
}

// TestReader_ContextsOfWaiters holds a poll up in the bucket. Others that wait for it must heed their contexts, and Close
// must end it.
func TestReader_ContextsOfWaiters(t *testing.T) {
	b, _, r := readerBeside(t, ReaderOptions{Patience: time.Hour})
	asked := make(chan struct{}, 1000)
	b.HookReads(func(string) error {
		asked <- struct{}{}
		return errors.New("no route to host")
	})
	var held sync.WaitGroup
	held.Go(func() {
		if err := r.Refresh(context.Background()); err != shale.ErrClosed {
			t.Errorf("Refresh: %v, want ErrClosed", err)
		}
	})
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	within(t, "Refresh", func() {
		if err := r.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second Refresh: %v", err)
		}
	})
	within(t, "Snapshot", func() {
		if _, err := r.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Snapshot: %v", err)
		}
	})
	within(t, "Close", func() {
		mustNil(t, r.Close())
		held.Wait()
	})
	if err := r.Refresh(t.Context()); err != shale.ErrClosed {
		t.Errorf("Refresh of a closed Reader: %v", err)
	}
	if _, err := r.Snapshot(t.Context()); err != shale.ErrClosed {
		t.Errorf("Snapshot of a closed Reader: %v", err)
	}
}

// TestReader_WaitForRefusals waits while the bucket refuses each request at once. It must be asked from time to time, and
// not as often as the machine can.
func TestReader_WaitForRefusals(t *testing.T) {
	b, _, r := readerBeside(t, ReaderOptions{})
	b.HookReads(func(string) error { return remotetest.Refusal{Err: errors.New("access denied")} })
	before := b.Count("read", object.StepFolder)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := r.WaitFor(ctx, r.Seq()+1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if asked := b.Count("read", object.StepFolder) - before; asked < 2 || asked > 40 {
		t.Errorf("the bucket was asked %d times in 300 ms", asked)
	}
}

// TestReader_SharedRetrying gives several Readers one bucket of Retrying. None may change it.
func TestReader_SharedRetrying(t *testing.T) {
	b, _, _ := readerBeside(t, ReaderOptions{})
	shared := Retrying(b)
	before := shared.(*buckets.Retry).Patience
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			r := openTestReader(t, shared, ReaderOptions{Patience: time.Duration(i+1) * time.Second, Interval: -1})
			mustNil(t, r.Refresh(t.Context()))
		})
	}
	all.Wait()
	if now := shared.(*buckets.Retry).Patience; now != before {
		t.Errorf("its patience was %v and is %v", before, now)
	}
}

// TestReader_ViewValueError returns what the function has returned, as the same method of the store does.
func TestReader_ViewValueError(t *testing.T) {
	_, w, r := readerBeside(t, ReaderOptions{})
	mine := errors.New("mine")
	for key := range w.modelAt(r.Seq()) {
		if err := r.ViewValue([]byte(key), func([]byte) error { return mine }); err != mine {
			t.Errorf("%#v", err)
		}
		mustNil(t, r.ViewValue([]byte(key), func([]byte) error { return nil }))
	}
}

// TestSnapshot_CloseWhileAway closes a snapshot while the bucket does not answer, and others while their Reader is
// closed.
func TestSnapshot_CloseWhileAway(t *testing.T) {
	_, w, _ := readerBeside(t, ReaderOptions{})
	h := remotetest.NewFake(w.b)
	r := openTestReader(t, h, ReaderOptions{Patience: time.Hour, Interval: -1})
	w.commit(w.randomChanges())
	w.publish()
	mustNil(t, r.Refresh(t.Context()))
	s, err := r.Snapshot(t.Context())
	mustNil(t, err)
	h.Hook(func(call, _ string) error { return errors.New("no route to host") }, nil)
	within(t, "Snapshot.Close", func() { mustNil(t, s.Close()) })
	h.Hook(nil, nil)
	s, err = r.Snapshot(t.Context())
	mustNil(t, err)
	r.session.close(t.Context()) // as by a Close of the Reader that has come this far
	mustNil(t, s.Close())
	mustNil(t, r.Close())
}

// TestSession_ReleaseDuringRenewal releases a pin while it is being renewed. Neither the old one nor the next one stays.
func TestSession_ReleaseDuringRenewal(t *testing.T) {
	_, w, _ := readerBeside(t, ReaderOptions{})
	h := remotetest.NewFake(w.b)
	s := newSession(h, "ann")
	c, err := chain.LoadChain(t.Context(), h, w.s.id, 0)
	mustNil(t, err)
	step, err := s.hold(t.Context(), c)
	mustNil(t, err)
	before, err := Pins(t.Context(), w.b)
	mustNil(t, err)
	h.Hook(nil, func(call, _ string) error {
		if call == "put" {
			s.release(t.Context(), step)
		}
		return nil
	})
	if err := s.renew(t.Context()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	h.Hook(nil, nil)
	after, err := Pins(t.Context(), w.b)
	if err != nil || len(after) != len(before)-1 {
		t.Errorf("%d pins before, %d after, %v", len(before), len(after), err)
	}
}

package remote

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// slowDeletes lets a store collect n tables that nobody needs, from a bucket that takes a second for each DELETE. It
// returns the result of the collection, once that has begun to delete.
func slowDeletes(t *testing.T, s *Store, b *remotetest.Fake, n int) (done chan Collected, failed chan error) {
	t.Helper()
	for i := range n {
		mustNil(t, PutObject(t.Context(), b.Bucket, object.TableName(1<<object.EpochShift+1000+uint64(i)), []byte("stray"), true))
	}
	begun := make(chan bool, n)
	b.Hook(func(call, _ string) error {
		if call == "delete" {
			begun <- true
			time.Sleep(time.Second)
		}
		return nil
	}, nil)
	done, failed = make(chan Collected, 1), make(chan error, 1)
	go func() {
		c, err := s.Collect(context.Background())
		done <- c
		failed <- err
	}()
	<-begun
	return done, failed
}

// TestStore_CollectsBesidePublish publishes while a collection deletes: neither waits for the other, and it deletes
// several objects at the same time.
func TestStore_CollectsBesidePublish(t *testing.T) {
	inTime(t, func(o *Options) { o.Publish, o.Retain = -1, 1 }, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		model := map[string]string{}
		put(t, s, model, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		begun := time.Now()
		done, failed := slowDeletes(t, s, b, 400)
		for range 5 {
			put(t, s, model, "b", 10)
			mustNil(t, s.DB().Flush(t.Context()))
			mustNil(t, s.Publish(t.Context()))
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("five steps beside a collection have taken %v", took)
		}
		c := <-done
		mustNil(t, <-failed)
		if took := time.Since(begun); c.Tables != 400 || took > 40*time.Second {
			t.Errorf("%+v in %v: 400 DELETEs of a second, want 16 at the same time", c, took)
		}
		b.Hook(nil, nil)
		allThere(t, b, model)
	})
}

// TestStore_CloseEndsCollection closes a store whose collection deletes, and ends the context of another one.
func TestStore_CloseEndsCollection(t *testing.T) {
	inTime(t, func(o *Options) { o.Publish, o.Retain = -1, 1 }, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		put(t, s, map[string]string{}, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		_, failed := slowDeletes(t, s, b, 1000)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := s.Collect(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second collection: %v, want it to wait for the first", err)
		}
		mustNil(t, s.Close())
		if took := time.Since(begun); took > 8*time.Second {
			t.Errorf("Close has waited %v for a collection", took)
		}
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("the collection: %v", err)
		}
	})
}

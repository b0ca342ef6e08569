package remote

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestOpen_Requests opens a strict store after a clean Close, which has a segment for each write and may have many steps:
// at most 50 requests, however many there are. After a crash it reads the headers of segments many at a time.
func TestOpen_Requests(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, c := range []struct{ writes, steps int }{{0, 0}, {10, 0}, {2000, 0}, {100, 90}, {500, 9}} {
		for _, crash := range []bool{false, true} {
			what := fmt.Sprintf("%d writes, %d steps, crash %v", c.writes, c.steps, crash)
			model, mem, bucket := map[string]string{}, vfs.NewMem(), remotetest.NewFake(NewMem())
			o := manual(mem)
			o.Strict = true
			s := openStore(t, "db", bucket, o)
			put(t, s, model, "first", 1)
			mustNil(t, s.Publish(t.Context()))
			for i := range c.steps {
				put(t, s, model, fmt.Sprintf("step%d-", i), 1)
				mustNil(t, s.Publish(t.Context()))
			}
			put(t, s, model, strings.Repeat("long", 20), c.writes) // some logs
			if crash {
				mem = copyOf(mem)
				bucket.Refuse("", "")
			}
			if err := s.Close(); err != nil && !crash {
				t.Fatalf("%s: %v", what, err)
			}
			before := bucket.Count("", "")
			var mu sync.Mutex
			under, most := 0, 0
			bucket.Hook(func(call, name string) error {
				if call != "read" || !strings.HasPrefix(name, object.SegmentFolder) {
					return nil
				}
				mu.Lock()
				under++
				most = max(most, under)
				mu.Unlock()
				if crash {
					time.Sleep(100 * time.Microsecond) // so that calls meet
				}
				return nil
			}, func(call, name string) error {
				mu.Lock()
				defer mu.Unlock()
				if call == "read" && strings.HasPrefix(name, object.SegmentFolder) {
					under--
				}
				return nil
			})
			o.Store.FS = mem
			s, err := Open(t.Context(), "db", bucket, o)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			n := bucket.Count("", "") - before
			bucket.Hook(nil, nil)
			t.Logf("%s: %d requests, %d segments at a time", what, n, most)
			if !crash && n > 50 {
				t.Errorf("%s: Open takes %d requests", what, n)
			}
			if crash && c.writes >= 100 && most < 8 {
				t.Errorf("%s: %d segments are read at a time", what, most)
			}
			sameMap(t, what, contents(t, s.DB()), model)
			mustNil(t, s.Close())
			sameMap(t, what+", restored", restoredContents(t, bucket), model)
		}
	}
}

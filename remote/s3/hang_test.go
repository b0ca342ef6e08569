package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/remote"
)

// TestHang_NewConnection has a way to the server on which no connection answers any more that was open before: a
// firewall has forgotten them. One call finds that out, and the next one takes a new connection.
func TestHang_NewConnection(t *testing.T) {
	var mu sync.Mutex
	known, forgotten := map[string]bool{}, false
	var together sync.WaitGroup
	b, _ := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hangs := forgotten && known[r.RemoteAddr]
		known[r.RemoteAddr] = true
		first := !forgotten
		mu.Unlock()
		if hangs {
			<-r.Context().Done()
			return
		}
		if first {
			together.Done()
			together.Wait() // so that each has a connection of its own
		}
		w.WriteHeader(http.StatusNoContent)
	})
	const connections = 8
	together.Add(connections)
	var calls sync.WaitGroup
	for range connections {
		calls.Go(func() {
			if err := b.Delete(t.Context(), "m/1"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	mu.Lock()
	forgotten = true
	mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.Delete(ctx, "m/1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call on a connection that is forgotten: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.Delete(ctx, "m/1"); err != nil {
		t.Errorf("the call after that: %v", err)
	}
}

// TestHang_Body reads an object that comes slowly, and one whose bytes stop coming. The first is not ended, the second
// is asked for again.
func TestHang_Body(t *testing.T) {
	if testing.Short() {
		t.Skip("takes nine seconds")
	}
	const size = 80 << 10
	for _, stalls := range []bool{false, true} {
		t.Run(fmt.Sprint("stalls ", stalls), func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			b, _ := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
				n := requests.Add(1)
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, size))
				w.Header().Set("Content-Length", fmt.Sprint(size))
				w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
				w.Header().Set("ETag", `"x"`)
				w.WriteHeader(http.StatusPartialContent)
				for i := range 10 {
					_, _ = w.Write(make([]byte, size/10)) // the client may have gone
					_ = http.NewResponseController(w).Flush()
					switch {
					case stalls && n == 1 && i == 5:
						<-r.Context().Done()
						return
					case !stalls:
						time.Sleep(800 * time.Millisecond)
					}
				}
			})
			begun := time.Now()
			n, err := remote.Retrying(b).ReadAt(t.Context(), "m/1", make([]byte, size), 0)
			took, want := time.Since(begun), int64(1)
			if stalls {
				want = 2
			}
			if n != size || err != nil || requests.Load() != want || took < 5*time.Second || took > 20*time.Second {
				t.Errorf("%d bytes, %v after %v and %d requests", n, err, took, requests.Load())
			}
		})
	}
}

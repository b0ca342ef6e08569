package shale

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/lifetime"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A flush that finds no room is tried again, each time later, and by itself.
func TestFlush_BacksOff(t *testing.T) {
	testenv.CheckLeaks(t)
	var full atomic.Bool
	faults := faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
		if full.Load() && op == vfs.OpWrite && strings.HasSuffix(name, ".sst") {
			return syscall.ENOSPC
		}
		return nil
	})
	opts := tinyStore(faults)
	failed := make(chan time.Time, 1000)
	opts.OnEvent = func(e Event) {
		if e.Kind == EventBackgroundError && e.Reason == "flush" && errors.Is(e.Err, syscall.ENOSPC) {
			failed <- e.Time
		}
	}
	db := openTest(t, &opts)
	full.Store(true)
	for i := range 5 { // one memtable and a little
		mustPut(t, db, fmt.Sprint("key", i), strings.Repeat("v", 1000))
	}
	last := <-failed
	for n := 1; n <= 4; n++ {
		next := <-failed
		if next.Sub(last) < lifetime.RetryDelay(n) {
			t.Errorf("attempt %d came %v after the one before, want %v at least", n+1, next.Sub(last), lifetime.RetryDelay(n))
		}
		last = next
	}
	mustPut(t, db, "while", "the disk is full")
	full.Store(false)
	testenv.WaitFor(t, "the flush to succeed by itself", func() bool { return len(db.mems.View().Imms) == 0 })
	wantGet(t, db, "key0", strings.Repeat("v", 1000), true)
	wantGet(t, db, "while", "the disk is full", true)
}

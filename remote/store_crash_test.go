package remote

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A crashLife is a store whose machine loses its power.
type crashLife struct {
	lazy   bool // writes are not synced one by one
	fsys   *vfs.Mem
	bucket Bucket
	all    map[string]string // what may be there after a power cut

	mu     sync.Mutex        // protects synced
	synced map[string]string // what must be there
}

// sync notes what must be there.
func (l *crashLife) sync(key, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced[key] = value
}

// run lives: it opens the store twice, writes, flushes, ships and publishes.
func (l *crashLife) run(t *testing.T) {
	ctx := context.Background()
	for life := range 2 {
		o := manual(l.fsys)
		if l.lazy {
			o.Store.Durability = shale.SyncManual
		}
		s, err := Open(ctx, "db", l.bucket, o)
		mustNil(t, err)
		for i := range 6 {
			key, value := fmt.Sprintf("%d-%d", life, i), fmt.Sprint("x", len(l.all))
			l.all[key] = value
			mustNil(t, s.DB().Put([]byte(key), []byte(value)))
			if !l.lazy {
				l.sync(key, value)
			}
			switch i {
			case 0, 4:
				mustNil(t, s.Ship(ctx))
			case 1, 3:
				mustNil(t, s.DB().Flush(ctx))
			case 2, 5:
				mustNil(t, s.Publish(ctx))
			}
			l.sync(key, value) // Ship, Flush and Publish sync
		}
		if life == 0 {
			mustNil(t, s.Close())
		} else {
			t.Cleanup(func() { _ = s.Close() })
		}
	}
}

// TestStore_PowerCuts is powerCuts with and without a sync of each write.
func TestStore_PowerCuts(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, lazy := range []bool{false, true} {
		powerCuts(t, lazy)
	}
}

// A powerCut has what is left after the power was cut at an operation, and what must be there.
type powerCut struct {
	at     int64
	fsys   *vfs.Mem
	bucket Bucket
	synced map[string]string
}

// powerCuts cuts the power at each operation of the file system, opens the store again with the
// bucket as it was then, goes on, and cuts the power once more. The bucket is never ahead of the
// disk, the directory is never taken for a copy, and in the end the bucket has all that the store has.
func powerCuts(t *testing.T, lazy bool) {
	step := int64(7)
	if testing.Short() {
		step = 17
	}
	if os.Getenv("SHALE_LONG") != "" {
		step = 1
	}
	var cuts []powerCut
	l := crashLife{lazy: lazy, fsys: vfs.NewMem(), bucket: NewMem(), all: map[string]string{}, synced: map[string]string{}}
	l.fsys.OnOp(func(vfs.Op, string) {
		// The operation may be one of the background, and the life goes on meanwhile: so what must be there comes first. The
		// lock is for two of them at once.
		l.mu.Lock()
		defer l.mu.Unlock()
		n := l.fsys.Ops()
		if n%step != 0 {
			return
		}
		for i, c := range vfs.CrashConfigs(uint64(n)) {
			if step == 1 || i == int(n/step)%24 {
				cuts = append(cuts, powerCut{synced: maps.Clone(l.synced), bucket: cloneOf(l.bucket), at: n, fsys: l.fsys.Crash(c)})
			}
		}
	})
	l.run(t)
	l.fsys.OnOp(nil)
	for _, c := range cuts {
		for again := range 2 {
			what := fmt.Sprintf("power cut at operation %d, life %d after it", c.at, again)
			s, err := Open(t.Context(), "db", c.bucket, manual(c.fsys))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			got := contents(t, s.DB())
			for key, value := range c.synced {
				if got[key] != value {
					t.Fatalf("%s: %q is lost", what, key)
				}
			}
			for key, value := range got {
				if l.all[key] != value && again == 0 {
					t.Fatalf("%s: %q is %q", what, key, value)
				}
			}
			mustNil(t, s.DB().Put([]byte("after"), []byte(what)))
			mustNil(t, s.Publish(t.Context()))
			sameMap(t, what+": the bucket", restoredContents(t, c.bucket), contents(t, s.DB()))
			next, bucket := c.fsys.Crash(vfs.CrashConfig{Seed: uint64(c.at)}), cloneOf(c.bucket)
			mustNil(t, s.Close())
			c.fsys, c.bucket = next, bucket
		}
	}
	t.Log(len(cuts), "power cuts of", l.fsys.Ops(), "operations")
}

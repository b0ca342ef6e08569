package shale

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// What the logs have counted is neither lost nor counted twice while one takes
// over from another: seen at every operation on a log, it only grows.
func TestMetrics_LogsOnlyGrow(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.CompactionWorkers = -1
	db := openTest(t, &opts)
	var last Metrics
	var mu sync.Mutex
	mem.OnOp(func(op vfs.Op, name string) {
		if !strings.HasSuffix(name, ".wal") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		m := db.Metrics()
		if m.WALBytes < last.WALBytes || m.WALSyncs < last.WALSyncs {
			t.Errorf("%v of %s: %d bytes and %d syncs, before it %d and %d", op, name, m.WALBytes, m.WALSyncs, last.WALBytes, last.WALSyncs)
		}
		last = m
	})
	for i := range 40 {
		mustPut(t, db, fmt.Sprint(i), "value")
		if i%10 == 9 {
			mustFlush(t, db)
		}
	}
	mem.OnOp(nil)
	mu.Lock()
	defer mu.Unlock()
	if want := db.Metrics().WrittenBytes; last.WALBytes < want || last.WALBytes > 100*want {
		t.Errorf("%d bytes of keys and values, %d of the log", want, last.WALBytes)
	}
}

// A lookup under way counts as a miss until it is a hit, and then no longer.
func TestMetrics_SubOfLookupsUnderWay(t *testing.T) {
	earlier, later := Metrics{Gets: 7, GetHits: 2, GetMisses: 5}, Metrics{Gets: 8, GetHits: 6, GetMisses: 2}
	if d := later.Sub(earlier); d.Gets != 1 || d.GetHits != 4 || d.GetMisses != 0 {
		t.Errorf("Sub: %d lookups, %d hits, %d misses; want 1, 4 and 0", d.Gets, d.GetHits, d.GetMisses)
	}
}

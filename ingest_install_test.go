package shale

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/memqueue"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// At the moment when an ingestion is written to the manifest, it is not visible yet: not in a snapshot
// that is taken then, and not through a view of then with a later sequence number. A PutIfAbsent that
// found its key absent then looks again when its turn comes, and does not insert it.
func TestIngest_InvisibleUntilInstalled(t *testing.T) {
	testenv.CheckLeaks(t)
	mem := vfs.NewMem()
	o := small()
	o.FS = mem
	db := openTest(t, o)
	mustPut(t, db, "before", "v")
	mustFlush(t, db)
	var claim sync.WaitGroup
	var before *memqueue.View
	var snapshot *Snapshot
	mem.OnOp(func(op vfs.Op, name string) {
		if op != vfs.OpWrite || !strings.Contains(name, "MANIFEST") || before != nil {
			return
		}
		before, snapshot = db.mems.View(), mustSnapshot(t, db)
		claim.Go(func() {
			if inserted, err := db.PutIfAbsent([]byte("k000007"), []byte("claimed")); inserted || err != nil {
				t.Errorf("PutIfAbsent = %v, %v; the key came while it waited", inserted, err)
			}
		})
		for waits := 0; waits == 0; runtime.Gosched() { // until PutIfAbsent has looked and waits for its turn
			waits = db.commits.Waiting()
		}
	})
	testenv.Within(t, time.Minute, "Ingest", func() { mustIngest(t, db, sortedKeys(0, 10, "v")) })
	mem.OnOp(nil)
	claim.Wait()
	if before == nil {
		t.Fatal("the manifest was not written")
	}
	wantGet(t, db, "k000007", "v", true)
	wantGet(t, snapshot, "k000007", "", false)
	if err := snapshot.Close(); err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "after", "v")
	if before.Mem == db.mems.View().Mem {
		t.Error("a view from before the ingestion shows later writes, and not what was ingested")
	}
}

// TestIngest_ReadsNoTableWhileItLeads keeps the queue of writers busy until an ingestion waits for its
// turn. All its tables are open by then: while the ingestion leads the queue, and writers wait, it does
// nothing with files of tables, however many there are.
func TestIngest_ReadsNoTableWhileItLeads(t *testing.T) {
	for _, n := range []int{1, 200} {
		var opened, later atomic.Int64
		var leads atomic.Bool
		o := small()
		o.TableSize, o.CompactionWorkers = 4<<10, -1
		o.FS = faultfs.New(vfs.NewMem(), func(op vfs.Op, name string, _ int64) error {
			switch table := strings.HasSuffix(name, ".sst"); {
			case leads.Load() && (table || op == vfs.OpSyncDir):
				later.Add(1)
			case table && op == vfs.OpOpen:
				opened.Add(1)
			}
			return nil
		})
		db := openTest(t, o)
		mustPut(t, db, "before", "v")
		mustFlush(t, db)
		opened.Store(0)
		var ingestion sync.WaitGroup
		err := db.commits.Alone(context.Background(), func() error {
			ingestion.Go(func() { mustIngest(t, db, sortedKeys(0, n, strings.Repeat("x", 5<<10))) })
			for db.commits.Waiting() == 0 {
				time.Sleep(time.Millisecond)
			}
			leads.Store(true)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		testenv.Within(t, time.Minute, "Ingest", ingestion.Wait)
		leads.Store(false)
		tables := len(db.Inspect().Tables())
		if tables < n || int(opened.Load()) < n || later.Load() != 0 {
			t.Errorf("%d tables, %d opened before the ingestion had its turn, and %d operations on tables in its turn", tables, opened.Load(), later.Load())
		}
		wantGet(t, db, "k000000", strings.Repeat("x", 5<<10), true)
		closeTest(t, db)
	}
}

// TestIngest_PublishedWithItsTables looks at the store under the lock of its snapshots, as Snapshot and
// compactions do, while keys are ingested. No table may have entries whose sequence numbers are not
// published: otherwise a snapshot with an older number could be opened after a compaction has merged
// the table, and would see a part of it.
func TestIngest_PublishedWithItsTables(t *testing.T) {
	db := openTest(t, small())
	var stop atomic.Bool
	var looks int
	var wg sync.WaitGroup
	wg.Go(func() {
		for ; !stop.Load(); looks++ {
			// A condition holds the lock of changes, which stops an installation after its tables are in the view.
			db.changes.Await(context.Background(), func() bool {
				time.Sleep(100 * time.Microsecond)
				db.snapshots.Publish(func() { // nothing else is published meanwhile
					visible := db.commits.Visible()
					for table := range db.mems.View().Tables() {
						if table.Meta.MaxSeq > visible {
							t.Errorf("table %v has sequence number %d, and %d is published", table.Meta.Num, table.Meta.MaxSeq, visible)
							stop.Store(true)
						}
					}
				})
				return true
			})
			runtime.Gosched()
		}
	})
	for i := 0; i < 100 && !stop.Load(); i++ {
		err := db.Ingest(context.Background(), func(yield func(key, value []byte) bool) {
			_ = yield([]byte("a"), fmt.Append(nil, i)) && yield([]byte("b"), fmt.Append(nil, i))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d looks", looks)
}

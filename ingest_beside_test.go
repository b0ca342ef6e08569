package shale

import (
	"context"
	"fmt"
	"maps"
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

// An ingestBeside is a store that ingests while goroutines use it. Ingestion i gives the keys k000000 to
// k000399 the value i. The value of saysKey, which lies between them, is the last ingestion that had
// returned when it was written.
type ingestBeside struct {
	t     *testing.T
	db    *DB
	stop  chan struct{}
	group sync.WaitGroup

	round                  atomic.Int64 // the last ingestion that has returned
	writes, reads, claimed atomic.Int64
}

const (
	ingestKeys = 400
	saysKey    = "k000200x"
)

// while calls fn in a goroutine again and again, until it returns an error or stop is closed.
func (b *ingestBeside) while(fn func(i int) error) {
	b.group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-b.stop:
				return
			default:
			}
			if err := fn(i); err != nil {
				b.t.Error(err)
				return
			}
		}
	})
}

// write writes saysKey, and a new key, which Get must find.
func (b *ingestBeside) write(i int) error {
	if err := b.db.Put([]byte(saysKey), fmt.Appendf(nil, "%06d", b.round.Load())); err != nil {
		return err
	}
	key := fmt.Appendf(nil, "own%06d", i)
	if err := b.db.Put(key, key); err != nil {
		return err
	}
	b.writes.Store(int64(i + 1))
	if got, err := b.db.Get(key); string(got) != string(key) {
		return fmt.Errorf("%s, which was written just now, is %q, %w", key, got, err)
	}
	return nil
}

// claim puts keys of the ingestions if they are absent. It succeeds before the first ingestion only,
// which then hides the value.
func (b *ingestBeside) claim(i int) error {
	key := fmt.Appendf(nil, "k%06d", i%ingestKeys)
	inserted, err := b.db.PutIfAbsent(key, []byte("claimed"))
	if inserted {
		b.claimed.Add(1)
	}
	return err
}

// look scans a snapshot twice. It must see one ingestion as a whole, no value of saysKey that is newer,
// and the same both times.
func (b *ingestBeside) look(int) error {
	s, err := b.db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close() // once
	var first map[string]int
	for n := range 2 {
		b.reads.Add(1)
		seen, says := make(map[string]int), ""
		for e, err := range s.Scan(Prefix("k")) {
			switch {
			case err != nil:
				return err
			case string(e.Key) == saysKey:
				says = string(e.Value)
			default:
				seen[string(e.Value)]++
			}
		}
		claimed := seen["claimed"]
		delete(seen, "claimed")
		for value, count := range seen {
			if len(seen) > 1 || count != ingestKeys || claimed > 0 || says > value {
				return fmt.Errorf("a snapshot shows %v, %d claimed, and a write after ingestion %s", seen, claimed, says)
			}
		}
		if n > 0 && !maps.Equal(seen, first) {
			return fmt.Errorf("a snapshot shows %v, and then %v", first, seen)
		}
		first = seen
	}
	return nil
}

// Readers see all of an ingestion or nothing of it, and no later write without it. Snapshots do not
// change, and no write is lost.
func TestIngest_BesideOthers(t *testing.T) {
	testenv.CheckLeaks(t)
	rounds, stores := 8, 3
	if testing.Short() {
		rounds, stores = 4, 2
	}
	begin := time.Now()
	var writes, reads, claimed int64
	for range stores {
		o := small()
		o.FS, o.CompactionWorkers = vfs.NewMem(), 2
		b := &ingestBeside{t: t, db: openTest(t, o), stop: make(chan struct{})}
		b.while(b.write)
		b.while(b.claim)
		b.while(b.look)
		b.while(b.look)
		for i := 1; i <= rounds; i++ {
			if err := b.db.Ingest(context.Background(), sortedKeys(0, ingestKeys, fmt.Sprintf("%06d", i))); err != nil {
				t.Fatal(err)
			}
			b.round.Store(int64(i))
		}
		close(b.stop)
		b.group.Wait()
		for range 2 {
			wantGet(t, b.db, "k000000", fmt.Sprintf("%06d", rounds), true)
			own := int64(0)
			for _, err := range b.db.Scan(Prefix("own")) {
				if own++; err != nil {
					t.Fatal(err)
				}
			}
			if own < b.writes.Load() {
				t.Errorf("%d of %d writes are there", own, b.writes.Load())
			}
			closeTest(t, b.db)
			b.db = openTest(t, o)
		}
		closeTest(t, b.db)
		writes, reads, claimed = writes+b.writes.Load(), reads+b.reads.Load(), claimed+b.claimed.Load()
	}
	t.Logf("%d ingestions beside %d writes, %d scans and %d claims in %v", stores*rounds, writes, reads, claimed, time.Since(begin).Round(time.Millisecond))
}

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
		tables := len(db.Tables())
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
			// The lock of changes stops an installation after its tables are in the view.
			db.changes.mu.Lock()
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
			db.changes.mu.Unlock()
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

// Keys are ingested into level 0 while compactions take a part of them. Readers and snapshots see all of
// an ingestion or nothing of it, and a snapshot does not change.
func TestIngest_IntoLevel0(t *testing.T) {
	const keys = 60
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	o := small()
	o.FS, o.CompactionWorkers, o.TableSize = vfs.NewMem(), 2, 4<<10
	value := func(i int) string { return fmt.Sprintf("%06d", i) + strings.Repeat("x", 200) } // several tables
	b := &ingestBeside{t: t, db: openTest(t, o), stop: make(chan struct{})}
	mustIngest(t, b.db, sortedKeys(0, keys, value(0)))
	look := func(r Reader) (map[string]int, error) {
		seen := make(map[string]int)
		for e, err := range r.Scan(Prefix("k")) {
			if err != nil {
				return nil, err
			}
			seen[string(e.Value[:6])]++
		}
		if len(seen) != 1 {
			return nil, fmt.Errorf("a scan shows parts of ingestions: %v", seen)
		}
		return seen, nil
	}
	b.while(func(int) error {
		_, err := look(b.db)
		return err
	})
	b.while(func(int) error {
		s, err := b.db.Snapshot()
		if err != nil {
			return err
		}
		defer s.Close() // once
		var first map[string]int
		for n := range 3 {
			seen, err := look(s)
			if err != nil {
				return err
			}
			if n > 0 && !maps.Equal(seen, first) {
				return fmt.Errorf("a snapshot shows %v, and then %v", first, seen)
			}
			first = seen
		}
		return nil
	})
	b.while(func(i int) error {
		return b.db.Compact(context.Background(), Range{Lower: fmt.Appendf(nil, "k%06d", i%keys), Upper: fmt.Appendf(nil, "k%06d", i%keys+10)})
	})
	for i := 1; i <= rounds && !t.Failed(); i++ {
		if err := b.db.Ingest(context.Background(), sortedKeys(0, keys, value(i))); err != nil {
			t.Error(err)
		}
	}
	close(b.stop)
	b.group.Wait()
	if !t.Failed() {
		wantGet(t, b.db, "k000000", value(rounds), true)
	}
}

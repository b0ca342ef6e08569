package shale

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// FilterMemory holds from Open on, whatever the filters in the files, and no
// answer changes.
func TestFilterMemory_IsALimit(t *testing.T) {
	opts := small()
	opts.FS, opts.FilterBits, opts.CompactionWorkers = vfs.NewMem(), 16, -1
	db := openTest(t, opts)
	fill(t, db, 20000, 0)
	settle(t, db)
	fill(t, db, 300, 0)
	mustFlush(t, db)
	all := db.Metrics().FilterMemory
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	lastFPR := -1.0
	for _, limit := range []int64{0, all - 1, all * 3 / 4, all / 2, all / 4, 1000, 1} {
		opts.FilterMemory = limit
		db := openTest(t, opts)
		m := db.Metrics()
		if limit > 0 && m.FilterMemory > limit {
			t.Errorf("FilterMemory %d: filters take %d bytes", limit, m.FilterMemory)
		}
		if fpr := m.PredictedFPR(); fpr < lastFPR {
			t.Errorf("FilterMemory %d: predicted rate %v, with more memory %v", limit, fpr, lastFPR)
		} else {
			lastFPR = fpr
		}
		if limit == all*3/4 && m.Levels[0].FilterBits < 20 {
			t.Errorf("FilterMemory %d: level 0 has %.1f bits a key, level 6 %.1f", limit, m.Levels[0].FilterBits, m.Levels[6].FilterBits)
		}
		for i := 0; i < 20000; i += 97 {
			wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
			wantGet(t, db, fmt.Sprintf("key%06dx", i), "", false)
		}
		if err := db.Verify(context.Background()); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A waiting writer whose context ends leaves the queue, also as the first in it.
func TestWrite_CancelledWhileWaiting(t *testing.T) {
	db := openTest(t, small())
	entered, leave := make(chan struct{}), make(chan struct{})
	led := make(chan error, 1)
	go func() {
		r := db.queue.newRequest()
		defer r.free()
		r.exclusive = func() error { close(entered); <-leave; return nil }
		led <- db.commit(context.Background(), r)
	}()
	<-entered
	var b Batch
	mustPut(t, &b, "k", "v")
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error, 1)
	go func() { waiting <- db.Write(ctx, &b) }()
	waitFor(t, "the writer to queue", func() bool {
		db.queue.mu.Lock()
		defer db.queue.mu.Unlock()
		return len(db.queue.pending) == 1
	})
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("Write = %v; want context.Canceled", err)
	}
	close(leave)
	if err := <-led; err != nil {
		t.Error(err)
	}
	wantGet(t, db, "k", "", false)
	mustPut(t, db, "k", "later")
	wantGet(t, db, "k", "later", true)
}

// Keys that come in order make tables that are moved down as they are, with the
// rich filters of flushes. Their second units are released.
func TestFilterBits_SequentialLoad(t *testing.T) {
	if raceEnabled {
		t.Skip("too many keys for the race detector")
	}
	const n = 1_200_000
	opts := &Options{MemtableSize: 4 << 20, TableSize: 2 << 20, Durability: SyncManual, CompactionWorkers: -1}
	db := openTest(t, opts)
	var b Batch
	for i := range n {
		if err := b.Put(fmt.Appendf(nil, "key%08d", i), nil); err != nil {
			t.Fatal(err)
		}
		if b.Len() == 1000 {
			if err := db.Write(context.Background(), &b); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
		if i%200_000 == 0 {
			settle(t, db)
		}
	}
	settle(t, db)
	m := db.Metrics()
	if bits := 8 * float64(m.FilterMemory-1<<20) / n; bits > 12.5 {
		t.Errorf("%.1f bits a key are resident; want 10 or a little more:\n%v", bits, m)
	}
	if m.CompactBytes > m.FlushBytes/2 {
		t.Errorf("%d bytes were compacted, the test means tables that are moved", m.CompactBytes)
	}
}

package shale

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// TestRaiseFileNum_NewFiles raises the numbers of an open store, empty or not, with a prepared log or without one, while
// others write to it. The log and all files that are begun later have the new numbers, and nothing is lost.
func TestRaiseFileNum_NewFiles(t *testing.T) {
	for _, before := range []int{0, 1, 900, 5000} {
		mem := vfs.NewMem()
		db := mustOpen(t, "db", &Options{FS: mem, MemtableSize: 1 << 20, CompactionWorkers: -1})
		put := func(prefix string, n int) {
			for i := range n {
				if err := db.Put(fmt.Appendf(nil, "%s%05d", prefix, i), make([]byte, 1000)); err != nil {
					t.Error(err)
				}
			}
		}
		put("before", before)
		for round, first := range []uint64{1 << 36, 1 << 37, 5} {
			var writer sync.WaitGroup
			writer.Go(func() { put(fmt.Sprint("beside", round), 200) })
			if err := ShippingOf(db).RaiseFileNum(context.Background(), first); err != nil {
				t.Fatal(err)
			}
			writer.Wait()
			log := ShippingOf(db).Position().Log
			if log < first {
				t.Errorf("the log has number %d, below %d", log, first)
			}
			put(fmt.Sprint("after", round), 3000)
			if err := db.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			h, err := ShippingOf(db).Hold()
			if err != nil {
				t.Fatal(err)
			}
			newest := base.FileNum(0)
			for tab := range h.State().Version.Tables() {
				newest = max(newest, tab.Num)
			}
			h.Release()
			if uint64(newest) < first || ShippingOf(db).Position().Log < log {
				t.Errorf("after %d: the newest table has number %d, and the log %d", first, newest, ShippingOf(db).Position().Log)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = mustOpen(t, "db", &Options{FS: mem, Exist: MustExist, CompactionWorkers: -1})
		n := 0
		for _, err := range db.Scan(Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if want := before + 3*3200; n != want {
			t.Errorf("%d keys after another Open, want %d", n, want)
		}
	}
}

// TestHeldLogBytes checks that what HoldLogs keeps is counted, and nothing else.
func TestHeldLogBytes(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), MemtableSize: 64 << 10, CompactionWorkers: -1})
	fill := func(want bool) {
		t.Helper()
		for i := range 500 {
			mustPut(t, db, fmt.Sprint(i), string(make([]byte, 1000)))
		}
		mustFlush(t, db)
		if n := ShippingOf(db).HeldLogBytes(); (n > 400<<10) != want || !want && n != 0 {
			t.Errorf("%d bytes of logs are held", n)
		}
	}
	fill(false)
	ShippingOf(db).HoldLogs(1)
	fill(true)
	ShippingOf(db).HoldLogs(0)
	fill(false)
	closeTest(t, db)
}

// TestRaiseFileNum_Refuses asks for numbers that files can't have, and asks stores that don't write.
func TestRaiseFileNum_Refuses(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	for _, first := range []uint64{0, maxFirstFileNum + 1, ^uint64(0)} {
		if err := ShippingOf(db).RaiseFileNum(context.Background(), first); err == nil {
			t.Errorf("%d was taken", first)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ShippingOf(db).RaiseFileNum(context.Background(), 100); err == nil {
		t.Error("a closed store took it")
	}
}

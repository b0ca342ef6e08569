package wal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/smalldisk"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestWriter_NoRoomIsNotFinal fills disks of every size. A record that finds no room leaves
// the log as it was. Smaller records fit until the last block is used. The log can be sealed
// at any moment, and it takes records again when there is room.
func TestWriter_NoRoomIsNotFinal(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		for blocks := int64(1); blocks < 80; blocks++ {
			mem := vfs.NewMem()
			disk := smalldisk.New(mem, blocks)
			o := Options{FS: disk, Prealloc: 1 << 20, NoMap: noMap}
			w, err := Create(Header{Num: 7, StoreID: testStore}, o)
			if err != nil {
				if used, _, _ := disk.Usage(); !errors.Is(err, syscall.ENOSPC) || used != 0 || blocks >= 2 {
					t.Errorf("%d blocks: Create = %v, %d blocks used, want ENOSPC on a disk of one block only", blocks, err, used)
				}
				continue
			}
			var done []string
			for _, size := range []int{60_000, 9000, 300, 10} {
				for {
					p := testPayload(len(done), size)
					if _, err = w.Append([]byte(p), base.Seq(len(done))); err != nil {
						break
					}
					done = append(done, p)
				}
				if !errors.Is(err, errNoRoom) || !errors.Is(err, syscall.ENOSPC) || w.Err() != nil {
					t.Fatalf("%d blocks: Append of %d bytes = %v, and Err = %v, want errNoRoom with ENOSPC that is not final", blocks, size, err, w.Err())
				}
			}
			if free := blocks*smalldisk.Block - w.Len(); free > smalldisk.Block {
				t.Errorf("%d blocks: a record of 10 bytes finds no room though %d bytes are free", blocks, free)
			}
			mustSync(t, w)
			crashed := mem.Crash(vfs.CrashConfig{})
			if blocks%2 == 0 {
				disk.Resize(blocks + 40)
				if err := w.Reserve(); err != nil {
					t.Errorf("%d blocks: Reserve with room: %v", blocks, err)
				}
				done = append(done, testPayload(len(done), 60_000))
				mustAppend(t, w, done[len(done)-1], base.Seq(len(done)))
			}
			length, err := w.Seal()
			if err != nil {
				t.Fatalf("%d blocks: Seal: %v", blocks, err)
			}
			mustClose(t, w)
			got, res, err := readLog(mem, 7, ReadOptions{Known: length})
			if err != nil || !res.Sealed || !slices.Equal(got, done) {
				t.Errorf("%d blocks: %d records, sealed %v, %v, want %d", blocks, len(got), res.Sealed, err, len(done))
			}
			if got, _, err := readLog(crashed, 7, ReadOptions{Known: -1}); err != nil || len(got) < len(done)-1 {
				t.Errorf("%d blocks: after a crash %d records, %v, want %d", blocks, len(got), err, len(done))
			}
		}
	}
}

// TestWriter_GrowsInSteps checks that a log with few records is small, and that a large one
// is extended neither often nor far ahead of its records.
func TestWriter_GrowsInSteps(t *testing.T) {
	disk := smalldisk.New(vfs.NewMem(), 1<<20)
	faults := faultfs.New(disk, nil)
	const expected = 36 << 20
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: faults, Prealloc: expected})
	payload := testPayload(1, 10_000)
	used := func() int64 { n, _, _ := disk.Usage(); return n * smalldisk.Block }
	if n := used(); n > firstReserve {
		t.Errorf("a new log takes %d bytes, want %d at most", n, firstReserve)
	}
	for w.Len() < expected-20_000 {
		mustAppend(t, w, payload, 1)
		if n := used(); n > 2*w.Len()+2*firstReserve || n > expected {
			t.Fatalf("the log takes %d bytes with %d of records", n, w.Len())
		}
	}
	if n := faults.Count(vfs.OpPreallocate); n > 12 {
		t.Errorf("it was extended %d times, want 12 at most", n)
	}
	mustAppend(t, w, testPayload(1, 3<<20), 1) // more than was expected
	mustClose(t, w)
}

// TestWriter_SmallLogsStaySmall checks that a log that gets longer than was expected of it reserves no
// more than it holds: the logs of a small memtable would fill a small disk.
func TestWriter_SmallLogsStaySmall(t *testing.T) {
	disk := smalldisk.New(vfs.NewMem(), 1<<20)
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: disk, Prealloc: 4 << 10})
	for w.Len() < 300_000 {
		mustAppend(t, w, testPayload(1, 100), 1)
		if n, _, _ := disk.Usage(); n*smalldisk.Block > 2*(w.Len()+2*smalldisk.Block) {
			t.Fatalf("the log takes %d blocks with %d bytes of records", n, w.Len())
		}
	}
	mustClose(t, w)
}

// TestPrepare_TakesWhatThereIs checks that a disk without room for everything that a log
// would reserve still has room for less.
func TestPrepare_TakesWhatThereIs(t *testing.T) {
	for blocks := int64(1); blocks < 300; blocks += 7 {
		disk := smalldisk.New(vfs.NewMem(), blocks)
		p, err := Prepare(7, Options{FS: disk, Prealloc: 1 << 20})
		used, _, _ := disk.Usage()
		if err != nil {
			if blocks >= 2 || used != 0 {
				t.Errorf("%d blocks: Prepare = %v, %d blocks used", blocks, err, used)
			}
			continue
		}
		if used > blocks || used < min(blocks/2, 256) {
			t.Errorf("%d blocks: %d are reserved, want half of them at least", blocks, used)
		}
		w, err := p.Begin(Header{Num: 7, StoreID: testStore})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, w, "record", 1)
		w.Shrink()
		mustAppend(t, w, "after", 2)
		mustClose(t, w)
	}
}

// TestShrink gives back what logs of every length have reserved. All records are there, those
// from before and those from after it, whatever a crash leaves.
func TestShrink(t *testing.T) {
	testenv.SkipRace(t)
	for _, noMap := range []bool{false, true} {
		for n := 0; n < 40; n++ {
			mem := vfs.NewMem()
			disk := smalldisk.New(mem, 1<<20)
			p, err := Prepare(7, Options{FS: disk, Prealloc: 1 << 20, NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			w, err := p.Begin(Header{Num: 7, StoreID: testStore})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			add := func(size int) {
				want = append(want, testPayload(len(want), size))
				mustAppend(t, w, want[len(want)-1], base.Seq(len(want)))
			}
			for range n {
				add(3001)
			}
			mustSync(t, w)
			w.Shrink()
			if used, _, _ := disk.Usage(); used*smalldisk.Block > max(firstReserve, w.Len()+3*smalldisk.Block) {
				t.Errorf("%d records: the log takes %d blocks with %d bytes of records", n, used, w.Len())
			}
			shrunk := len(want)
			add(10)
			add(70_000)
			for _, c := range vfs.CrashConfigs(uint64(n)) {
				got, _, err := readLog(mem.Crash(c), 7, ReadOptions{Known: -1})
				if err != nil || len(got) < shrunk || !slices.Equal(got, want[:len(got)]) {
					t.Fatalf("%d records, then a crash %v: %d are found, %v, want %d at least", n, c, len(got), err, shrunk)
				}
			}
			w.Shrink()
			if _, err := w.Seal(); err != nil {
				t.Fatal(err)
			}
			mustClose(t, w)
			got, _, err := readLog(mem, 7, ReadOptions{Known: -1})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%d records: %d are found, %v", n, len(got), err)
			}
		}
	}
}

// TestWriter_UnreservedDiskIsFull checks a full disk where blocks can't be reserved. It tears
// a record, which is final, and a later sync does not succeed.
func TestWriter_UnreservedDiskIsFull(t *testing.T) {
	for blocks := int64(1); blocks < 40; blocks++ {
		mem := vfs.NewMem()
		disk := smalldisk.New(mem, blocks)
		disk.Unreserved = true
		w, err := Create(Header{Num: 7, StoreID: testStore}, Options{FS: disk, Prealloc: 1 << 20})
		if err != nil {
			t.Fatalf("%d blocks: %v", blocks, err)
		}
		var want []string
		for err == nil {
			p := testPayload(len(want), 1500)
			if _, err = w.Append([]byte(p), base.Seq(len(want))); err == nil {
				want = append(want, p)
			}
		}
		if errors.Is(err, errNoRoom) || !errors.Is(err, syscall.ENOSPC) || w.Err() == nil || w.SyncFailed() {
			t.Errorf("%d blocks: Append = %v, Err = %v, want ENOSPC that is final", blocks, err, w.Err())
		}
		disk.Resize(1000)
		if _, again := w.Append([]byte("x"), base.Seq(len(want))); again != err {
			t.Errorf("%d blocks: Append with room = %v, want %v", blocks, again, err)
		}
		mustClose(t, w)
		got, _, err := readLog(mem, 7, ReadOptions{Known: -1})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d blocks: %d records, %v, want %d", blocks, len(got), err, len(want))
		}
	}
}

// TestSync_FailureIsKnown checks that SyncFailed distinguishes a failed sync from a failed
// write.
func TestSync_FailureIsKnown(t *testing.T) {
	faults := faultfs.New(vfs.NewMem(), nil)
	w := mustCreate(t, Header{Num: 7, StoreID: testStore}, Options{FS: faults, Prealloc: 64 << 10})
	mustAppend(t, w, "x", 1)
	if w.SyncFailed() || w.Err() != nil {
		t.Error("a log without errors has one")
	}
	faults.Inject(faultfs.FailAt(1, syscall.ENOSPC, vfs.OpSync))
	err := w.Sync()
	if !errors.Is(err, syscall.ENOSPC) || !w.SyncFailed() || w.Err() != err || !strings.Contains(fmt.Sprint(err), "sync") {
		t.Errorf("Sync = %v, SyncFailed = %v, Err = %v", err, w.SyncFailed(), w.Err())
	}
	mustClose(t, w)
}

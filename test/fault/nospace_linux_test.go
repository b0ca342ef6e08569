package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
)

// smallDisks are file systems on which a store finds no room.
var smallDisks = []struct {
	name  string
	mount func(t *testing.T) *testMount
}{
	{"tmpfs", func(t *testing.T) *testMount { return mountTmpfs(t, 24) }},
	{"ext4", func(t *testing.T) *testMount { return mountImage(t, "ext4", "", 32) }},
	{"xfs", func(t *testing.T) *testMount { return mountImage(t, "xfs", "", 320) }},     // mkfs.xfs makes none below 300
	{"btrfs", func(t *testing.T) *testMount { return mountImage(t, "btrfs", "", 160) }}, // mkfs.btrfs makes none below 110
}

// Disks are full and have room again. While they are full writers get errors
// that say so, and reads go on; then the same handle takes writes again, and
// nothing that was acknowledged is lost.
func TestNoSpace(t *testing.T) {
	for _, d := range smallDisks {
		t.Run(d.name, func(t *testing.T) {
			testenv.CheckLeaks(t)
			seed, long := testenv.Seed(t), testenv.Long(t)/time.Duration(len(smallDisks))
			if long == 0 && d.name != "tmpfs" {
				t.Skip("only with SHALE_LONG")
			}
			disk := d.mount(t)
			s := newCrowdedStore(t, disk.dir, syscall.ENOSPC, seed)
			s.squeeze = func() { disk.fillTo(max(s.r.Int64N(640<<10)-128<<10, 0)) }
			s.relieve = disk.release
			s.most = 4000
			rounds := 3
			if testing.Short() {
				rounds = 1
			}
			for lives := 0; lives < 2 || time.Since(s.begin) < long; lives++ {
				s.life(rounds)
			}
			if s.refused == 0 {
				t.Error("no writer has met a full disk")
			}
			t.Log(s)
		})
	}
}

// A store of the default size works on a small disk: puts, deletes and compactions go
// on while there is room for them, whatever the store would like to reserve.
func TestNoSpace_SmallDisk(t *testing.T) {
	testenv.SkipRace(t)
	for _, d := range []struct {
		name  string
		mount func(t *testing.T) *testMount
	}{
		{"tmpfs", func(t *testing.T) *testMount { return mountTmpfs(t, 8) }},
		{"ext4", func(t *testing.T) *testMount { return mountImage(t, "ext4", "", 8) }},
	} {
		t.Run(d.name, func(t *testing.T) {
			testenv.CheckLeaks(t)
			disk := d.mount(t)
			opts := &shale.Options{OnEvent: func(shale.Event) {}}
			var err error
			n := 0
			for life := 0; err == nil; life++ {
				db, oerr := shale.Open(disk.path("db"), opts)
				if oerr != nil {
					t.Fatalf("Open with %d bytes free: %v", disk.free(), oerr)
				}
				for i := 0; err == nil && i < 1000; i++ {
					b := new(shale.Batch)
					b.SetDurability(shale.SyncManual)
					if err := b.Put(fmt.Appendf(nil, "k%06d", n), []byte(strings.Repeat(fmt.Sprint(n), 900)[:900])); err != nil {
						t.Fatal(err)
					}
					if err = db.Write(context.Background(), b); err == nil {
						n++
					}
				}
				if cerr := db.Close(); cerr != nil && err == nil {
					t.Fatalf("Close: %v", cerr)
				}
			}
			if !errors.Is(err, syscall.ENOSPC) || n < 3000 {
				t.Fatalf("%d entries, then %v; want 3000 at least, then ENOSPC", n, err)
			}
			disk.release()
		})
	}
}

// A full disk with copy-on-write has no room for a block that is written over. A log
// that is written over says so, and nothing else.
func TestNoSpace_RecycledLogOnBtrfs(t *testing.T) {
	testenv.CheckLeaks(t)
	disk := mountImage(t, "btrfs", "", 160)
	var events []string
	var mu sync.Mutex
	opts := &shale.Options{MemtableSize: 2 << 20, Durability: shale.SyncManual, Compression: shale.NoCompression, OnEvent: func(e shale.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Err != nil {
			events = append(events, e.Err.Error())
		}
	}}
	db, err := shale.Open(disk.path("db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(i int) error { return db.Put(fmt.Appendf(nil, "k%06d", i%4000), make([]byte, 1000)) }
	n := 0
	for ; n < 8000; n++ {
		if err := put(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	disk.fillTo(0)
	for ; err == nil && n < 100_000; n++ {
		err = put(n)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put = %v, want ENOSPC", err)
	}
	mu.Lock()
	for _, e := range events {
		if strings.Contains(e, "input/output") {
			t.Errorf("an event tells of %s", e)
		}
	}
	mu.Unlock()
	t.Logf("after %d entries: %v", n, err)
	disk.release()
	testenv.WaitFor(t, "writes to go on by themselves", func() bool { return put(n) == nil })
}

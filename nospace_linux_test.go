package shale

import (
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// smallDisks are file systems on which a store finds no room.
var smallDisks = []struct {
	name  string
	mount func(t *testing.T) *testMount
}{
	{"tmpfs", func(t *testing.T) *testMount { return mountTmpfs(t, 24) }},
	{"ext4", func(t *testing.T) *testMount { return mountImage(t, "ext4", "", 32) }},
	{"xfs", func(t *testing.T) *testMount { return mountImage(t, "xfs", "", 320) }}, // mkfs.xfs makes none below 300
}

// Disks are full and have room again. While they are full writers get errors
// that say so, and reads go on; then the same handle takes writes again, and
// nothing that was acknowledged is lost.
func TestNoSpace(t *testing.T) {
	for _, d := range smallDisks {
		t.Run(d.name, func(t *testing.T) {
			checkLeaks(t)
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

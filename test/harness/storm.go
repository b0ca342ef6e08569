package harness

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// needRoom are the operations that a full disk refuses.
var needRoom = []vfs.Op{vfs.OpCreate, vfs.OpLink, vfs.OpMkdirAll, vfs.OpWrite, vfs.OpPreallocate}

// DrawStorm draws a way in which a disk is bad for a while: some kinds of operations fail, all of
// them or some, on files of one kind or on all.
func DrawStorm(r *rand.Rand) faultfs.InjectFunc {
	var ops []vfs.Op
	fault := faultfs.Fault{Err: syscall.EIO}
	short := false // half of each other write gets through
	rate := []float64{1, 1, 0.3, 0.03, 0.003}[r.IntN(5)]
	files := []string{"", "", "", ".wal", ".sst", "MANIFEST"}[r.IntN(6)]
	switch r.IntN(6) {
	case 0, 1: // a full disk
		fault.Err, short, ops = syscall.ENOSPC, true, needRoom
	case 2:
		ops = []vfs.Op{vfs.OpRead}
	case 3:
		ops = []vfs.Op{vfs.OpSync, vfs.OpSyncDir}
	default:
		for _, op := range vfs.AllOps() {
			if r.IntN(3) == 0 {
				ops = append(ops, op)
			}
		}
		short = r.IntN(2) == 0
		fault.After = !short && r.IntN(3) == 0
	}
	seed := r.Uint64()
	return func(op vfs.Op, name string, n int64) error {
		if !slices.Contains(ops, op) || !strings.Contains(filepath.Base(name), files) ||
			rand.New(rand.NewPCG(seed, uint64(n))).Float64() >= rate {
			return nil
		}
		f := fault
		f.Short = short && n%2 == 0
		return &f
	}
}

package shale

import (
	"context"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// While a store is opened read-only its owner writes, flushes and uses logs
// again: at each operation of Open, as much as makes all files others. Open
// finds what was acknowledged before it began, and what came after in order.
func TestReadOnly_OwnerWritesMeanwhile(t *testing.T) {
	const before = 40
	seed := testenv.Seed(t)
	bursts, first, step := []int{15, 100}, int64(1), int64(1)
	if testing.Short() {
		step = 8
		first += int64(seed % 8)
	}
	states := 0
	for _, noMap := range []bool{false, true} {
		for _, burst := range bursts {
			h := newHistory("a", seed, before+burst)
			for k, met := first, true; met; k += step {
				var err error
				if met, err = openBeside(h, before, k, noMap); err != nil {
					t.Fatalf("%d commits at operation %d of Open (without mapping: %v): %v", burst, k, noMap, err)
				}
				states++
			}
		}
	}
	t.Logf("%d openings", states)
}

// openBeside opens a store read-only that has the first commits of h, and makes
// the others before the k-th operation of that. met tells whether there is one.
func openBeside(h history, before int, k int64, noMap bool) (met bool, err error) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	opts.testing.noMap = noMap
	db, err := Open("db", &opts)
	if err != nil {
		return false, err
	}
	defer db.Close()
	for i := range before {
		if err := db.Write(context.Background(), h.batch(i, SyncManual)); err != nil {
			return false, err
		}
	}
	beside := tinyStore(nil)
	beside.ReadOnly = true
	var failed error
	beside.FS = vfs.NewFault(mem, func(_ vfs.Op, _ string, n int64) error {
		if n != k {
			return nil
		}
		met = true
		for i := before; i < len(h) && failed == nil; i++ {
			failed = db.Write(context.Background(), h.batch(i, SyncManual))
		}
		if k%3 == 0 {
			(&life{db: db}).rollManifest()
		}
		if failed == nil && k%2 == 0 {
			failed = db.Flush(context.Background())
		}
		return nil
	})
	ro, err := Open("db", &beside)
	if err != nil {
		return met, err
	}
	defer ro.Close()
	if failed != nil {
		return met, fmt.Errorf("the owner: %w", failed)
	}
	_, err = h.check(ro, "a", claim{safe: before, begun: len(h)})
	return met, err
}

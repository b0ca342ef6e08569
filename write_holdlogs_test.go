package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// chainOf returns the numbers of the logs on disk from the current one back to the first that is
// there, with their lengths, and fails if one of them is not whole.
func chainOf(t *testing.T, db *DB) (nums []uint64, batches map[uint64]int) {
	t.Helper()
	batches = make(map[uint64]int)
	p := ShippingOf(db).Position()
	num, length := base.FileNum(p.Log), p.Written
	for {
		n := 0
		res, err := wal.ReadRange(db.fs, db.dir, num, db.storeID, 0, length, func([]byte, int64) error { n++; return nil })
		if errors.Is(err, fs.ErrNotExist) {
			return nums, batches
		}
		if err != nil || len(nums) > 0 && !res.Sealed {
			t.Fatalf("log %s up to %d: %+v, %v", num, length, res, err)
		}
		nums = append(nums, uint64(num))
		batches[uint64(num)] = n
		h, err := wal.ReadHeader(db.fs, db.dir, num, db.storeID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if h.Prev == 0 {
			return nums, batches
		}
		num, length = h.Prev, h.PrevLen
	}
}

// Logs that are held stay whole through flushes, rotations, another Open and a full disk, until the
// program lets them go. Those with lower numbers go as ever.
func TestHoldLogs_StayWhole(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		mem := vfs.NewMem()
		o := small()
		o.FS, o.Durability, o.Shipping.HoldLogs = mem, SyncManual, 1
		o.testing.noMap, o.testing.minPrepared = noMap, 1
		db := mustOpen(t, "db", o)
		written := 0
		write := func(flushes int) {
			t.Helper()
			for range flushes {
				for range 10 {
					mustPut(t, db, fmt.Sprintf("k%05d", written%37), fmt.Sprint(written))
					written++
				}
				mustFlush(t, db)
			}
		}
		all := func() (nums []uint64) {
			t.Helper()
			nums, batches := chainOf(t, db)
			sum := 0
			for _, n := range batches {
				sum += n
			}
			if sum != written {
				t.Fatalf("the logs %v hold %v batches, %d were written", nums, batches, written)
			}
			return nums
		}
		write(6)
		if n := len(all()); n < 7 {
			t.Fatalf("%d logs after 6 flushes", n)
		}
		db.giveUpReserve(0) // what a full disk does
		all()
		closeTest(t, db)
		db = mustOpen(t, "db", o)
		write(2)
		nums := all()

		// The three newest stay, and the others go.
		ShippingOf(db).HoldLogs(nums[2])
		db.awaitDeletions(context.Background())
		if left, _ := chainOf(t, db); len(left) != 3 {
			t.Fatalf("logs %v are left of %v", left, nums)
		}
		write(3)
		if left, _ := chainOf(t, db); len(left) != 6 {
			t.Fatalf("logs %v are left after 3 flushes, held from %d", left, nums[2])
		}
		ShippingOf(db).HoldLogs(0)
		db.awaitDeletions(context.Background())
		if left, _ := chainOf(t, db); len(left) != 1 {
			t.Fatalf("logs %v are left, none is held", left)
		}
		write(3)
		if left, _ := chainOf(t, db); len(left) > 1+2 { // some are kept to be used again
			t.Fatalf("logs %v are left after 3 flushes, none is held", left)
		}
		closeTest(t, db)

		// Without the option, Open removes what was held.
		db = mustOpen(t, "db", o)
		write(3)
		closeTest(t, db)
		o.Shipping.HoldLogs = 0
		db = mustOpen(t, "db", o)
		if left, _ := chainOf(t, db); len(left) != 1 {
			t.Fatalf("logs %v are left after Open", left)
		}
		closeTest(t, db)
	}
}

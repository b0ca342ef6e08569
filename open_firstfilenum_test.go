package shale

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Files get numbers from FirstFileNum on, in a new store and in one that has lower ones. A lower
// FirstFileNum changes nothing later.
func TestFirstFileNum_AtLeast(t *testing.T) {
	mem := vfs.NewMem()
	o := small()
	o.FS = mem
	seen := make(map[base.FileNum]bool)
	files := func() (nums []base.FileNum) {
		t.Helper()
		names, err := mem.List("db")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, num, ok := base.ParseFileName(name); ok && num > 0 && !seen[num] {
				seen[num] = true
				nums = append(nums, num)
			}
		}
		return nums
	}
	least := uint64(0)
	for round, first := range []uint64{0, 5, 1 << 36, 7, 0, maxFirstFileNum, 1 << 40} {
		o.Shipping.FirstFileNum = first
		least = max(least, first)
		db := mustOpen(t, "db", o)
		for range 3 {
			mustPut(t, db, "k", fmt.Sprint(round))
			mustFlush(t, db)
		}
		mustIngest(t, db, sortedKeys(0, 10, fmt.Sprint(round)))
		for _, num := range files() {
			if uint64(num) < least {
				t.Errorf("file %s, with FirstFileNum %d", num, least)
			}
		}
		closeTest(t, db)
	}
	o.Shipping.FirstFileNum = 0
	db := mustOpen(t, "db", o)
	wantGet(t, db, "k", "6", true)
	wantGet(t, db, "k000009", "6", true)
	closeTest(t, db)
	for _, first := range []uint64{maxFirstFileNum + 1, math.MaxUint64} {
		o.Shipping.FirstFileNum = first
		if _, err := Open("db", o); err == nil || !strings.Contains(err.Error(), "FirstFileNum") {
			t.Errorf("FirstFileNum %d: %v", first, err)
		}
	}
}

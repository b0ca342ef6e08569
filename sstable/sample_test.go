package sstable

import (
	"errors"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// TestSample checks that a sample has entries of the table, in order, and that a sample of
// all blocks has all of them.
func TestSample(t *testing.T) {
	list := damageEntries()
	for name, o := range damageTables(t) {
		r := newTable(t, o, list)
		for _, n := range []int{0, 1, 2, 7, 1 << 20} {
			at, shown, blocks := 0, 0, 0
			err := r.Sample(n, func(kv *base.KV, first bool) error {
				for ; at < len(list) && !sameEntry(kv, list[at]); at++ {
				}
				if at == len(list) {
					t.Fatalf("%s: %v is out of order, or was never written", name, kv.InternalKey)
				}
				shown++
				if first {
					blocks++
				}
				return nil
			})
			all := n == 1<<20 && r.Props().Partitions == 0
			if err != nil || blocks > n || n > 0 && shown == 0 || all && shown != len(list) {
				t.Errorf("%s: %d of %d entries in a sample of %d blocks, from %d, %v", name, shown, len(list), n, blocks, err)
			}
		}
		enough := errors.New("enough")
		if err := r.Sample(3, func(*base.KV, bool) error { return enough }); err != enough {
			t.Errorf("%s: %v, not the error of the function", name, err)
		}
	}
}

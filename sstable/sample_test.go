package sstable

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A sample has entries of the table, in order, and a sample of all blocks has all of them.
func TestTrySample_Entries(t *testing.T) {
	list := damageEntries()
	for name, o := range damageTables(t) {
		r := newTable(t, o, list)
		if r.Props().Partitions > 0 {
			continue // of which there is no sample
		}
		b, _ := writeFile(t, o, list)
		r.try = inMemory{bytes.NewReader(b)}
		for _, n := range []int{0, 1, 2, 7, 1 << 20} {
			at, shown, blocks := 0, 0, 0
			err := r.TrySample(n, func(kv *base.KV, first bool) error {
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
			all := n == 1<<20
			if err != nil || blocks > n || n > 0 && shown == 0 || all && shown != len(list) {
				t.Errorf("%s: %d of %d entries in a sample of %d blocks, from %d, %v", name, shown, len(list), n, blocks, err)
			}
		}
		enough := errors.New("enough")
		if err := r.TrySample(3, func(*base.KV, bool) error { return enough }); err != enough {
			t.Errorf("%s: %v, not the error of the function", name, err)
		}
	}
}

// A sample of what is in memory asks for the rest, waits for nothing, and is no read.
func TestTrySample(t *testing.T) {
	list := damageEntries()
	for name, o := range damageTables(t) {
		r := newTable(t, o, list)
		partitions := r.Props().Partitions > 0
		sample := func() (shown int, err error) {
			err = r.TrySample(7, func(kv *base.KV, first bool) error {
				if !slices.ContainsFunc(list, func(want entry) bool { return sameEntry(kv, want) }) {
					t.Fatalf("%s: %v was never written", name, kv.InternalKey)
				}
				shown++
				return nil
			})
			return shown, err
		}
		if n, err := sample(); n > 0 || !errors.Is(err, vfs.ErrUnsupported) {
			t.Errorf("%s: %d entries of a file that can't tell, %v", name, n, err)
		}
		var log []access
		r.try = &coldSource{log: &log}
		if n, err := sample(); !partitions && (n > 0 || err != vfs.ErrWouldWait || len(log) != 1 || log[0].what != "need") {
			t.Errorf("%s: %d entries of a file that is not in memory, %v, after %v", name, n, err, log)
		}
		r.try = &moodySource{src: r.src, rng: rand.New(rand.NewPCG(testenv.Seed(t), 1))}
		before, shown := r.stats.BlockReads.Load(), 0
		for range 50 {
			n, _ := sample() // the source fails now and then
			shown += n
		}
		if after := r.stats.BlockReads.Load(); shown == 0 != partitions || after != before {
			t.Errorf("%s: %d entries, and %d blocks were counted as read", name, shown, after-before)
		}
	}
}

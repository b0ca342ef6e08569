package shale

import (
	"testing"

	"github.com/shaledb/shale/vfs"
)

// Sought counts what goes to the file of a table for a place in it: lookups and seeks that the block cache does not answer.
// Scans count once a table, and lookups of absent keys, cached blocks and compactions don't count.
func TestShipping_Sought(t *testing.T) {
	opts := small()
	opts.FS, opts.CompactionWorkers, opts.CacheSize = vfs.NewMem(), -1, -1
	db := mustOpen(t, "db", opts)
	fill(t, db, 2000, 0)
	if err := db.Compact(t.Context(), Range{}); err != nil { // one run, so that each key is in one table
		t.Fatal(err)
	}
	tables := db.Inspect().Tables()
	if len(tables) < 2 {
		t.Fatalf("%d tables: the test shows nothing", len(tables))
	}
	first, last := tables[0], tables[len(tables)-1]
	did := func(what string, want, wantOther uint32, fn func()) {
		t.Helper()
		before, other := ShippingOf(db).Sought(first.Number), ShippingOf(db).Sought(last.Number)
		fn()
		got, gotOther := ShippingOf(db).Sought(first.Number)-before, ShippingOf(db).Sought(last.Number)-other
		if got != want || gotOther != wantOther {
			t.Errorf("%s: %d and %d blocks were sought, want %d and %d", what, got, gotOther, want, wantOther)
		}
	}
	did("lookups", 10, 0, func() {
		for range 10 {
			if has, err := db.Has(first.Smallest); !has || err != nil {
				t.Fatal(has, err)
			}
		}
	})
	did("lookups of absent keys", 0, 0, func() {
		for range 10 {
			if has, err := db.Has(append(first.Smallest[:len(first.Smallest):len(first.Smallest)], "absent"...)); has || err != nil {
				t.Fatal(has, err)
			}
		}
	})
	it := db.NewIterator(Range{})
	defer it.Close() // it keeps the tables when they have been compacted
	did("seeks", 3, 3, func() {
		for range 3 {
			it.SeekGE(first.Smallest)
			it.SeekGE(last.Smallest)
		}
	})
	did("a scan", 1, 1, func() { scanAll(t, db, Range{}) })
	did("a compaction", 0, 0, func() {
		fill(t, db, 2000, 1)
		if err := db.Compact(t.Context(), Range{}); err != nil {
			t.Fatal(err)
		}
	})
	_ = it.Close()
	closeTest(t, db)
	opts.CacheSize = 1 << 20
	db = mustOpen(t, "db", opts)
	defer closeTest(t, db)
	tables = db.Inspect().Tables()
	first, last = tables[0], tables[len(tables)-1]
	did("lookups of a cached block", 1, 0, func() {
		for range 10 {
			if has, err := db.Has(first.Smallest); !has || err != nil {
				t.Fatal(has, err)
			}
		}
	})
}

// soughtBesideClose asks about tables that may have gone by then.
func soughtBesideClose(c *closing) error {
	for _, table := range c.db.Inspect().Tables() {
		ShippingOf(c.db).Sought(table.Number)
	}
	return nil
}

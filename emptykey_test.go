package shale

import (
	"context"
	"testing"
)

// A table whose only key is the empty one has bounds like any other: they are
// not taken for missing ones.
func TestCompact_TableOfTheEmptyKey(t *testing.T) {
	opts := small()
	opts.CompactionWorkers = -1
	db := openTest(t, opts)
	for _, value := range []string{"1", "2"} {
		for _, key := range []string{"a", ""} { // one table each
			mustPut(t, db, key, value)
			mustFlush(t, db)
		}
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
		wantGet(t, db, "", value, true)
		wantGet(t, db, "a", value, true)
		// A table for "" alone in the last level.
		mustDelete(t, db, "a")
		if err := db.Compact(context.Background(), Range{}); err != nil {
			t.Fatal(err)
		}
		if got := scanAll(t, db, Range{}); got != "="+value {
			t.Errorf("Scan = %q, want %q", got, "="+value)
		}
	}
	for table := range db.view.Load().Tables() {
		if table.Meta.Smallest == nil || table.Meta.Largest == nil {
			t.Errorf("bounds of table %d are nil", table.Meta.Num)
		}
	}
}

package shale

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// Open, use and Close leave nothing behind, on a disk or in memory, whether
// Open succeeds or not.
func TestLeaks_OpenAndClose(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	dir := t.TempDir()
	for i := range 15 {
		opts := small()
		db, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, db, 100*i, i)
		if _, err := Open(dir, opts); err == nil {
			t.Fatal("a second Open succeeded")
		}
		ro, err := Open(dir, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range []*DB{ro, db} {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

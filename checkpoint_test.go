package shale

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/shaledb/shale/vfs"
)

func TestCheckpoint(t *testing.T) {
	fsys := vfs.NewMem()
	opts := small()
	opts.FS = fsys
	db := openTest(t, opts)
	fill(t, db, 3000, 0)
	if err := db.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint("copy"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Checkpoint into an existing directory: %v", err)
	}
	fill(t, db, 3000, 1)
	if err := db.Compact(context.Background(), Range{}); err != nil {
		t.Fatal(err)
	}
	cp, err := Open("copy", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, cp)
	for i := range 3000 {
		wantGet(t, cp, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 0", i), true)
		wantGet(t, db, fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round 1", i), true)
	}
	fill(t, cp, 3000, 2)
	wantGet(t, cp, "key000000", "value 0 of round 2", true)
	wantGet(t, db, "key000000", "value 0 of round 1", true)
}

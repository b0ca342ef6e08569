package shale

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// A checkpoint goes where its relative name led when the call began.
func TestCheckpoint_RelativePathAndChdir(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	t.Chdir(root)
	opts := small()
	moved := false
	opts.FS = vfs.NewFault(vfs.Default, func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpLink && !moved {
			moved = true
			t.Chdir(other)
		}
		return nil
	})
	db := openTest(t, opts)
	fill(t, db, 300, 0)
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.Checkpoint("copy"); err != nil {
		t.Errorf("Checkpoint: %v", err)
	}
	if !moved {
		t.Error("no table was linked")
	}
	opts.FS, opts.MustExist = nil, true
	cp, err := Open(filepath.Join(root, "copy"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer closeTest(t, cp)
	wantGet(t, cp, "key000007", "value 7 of round 0", true)
	if names, _ := os.ReadDir(other); len(names) > 0 {
		t.Errorf("Checkpoint made %v in the later working directory", names)
	}
}

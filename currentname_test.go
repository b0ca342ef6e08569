package shale

import (
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// While a store is opened its manifest can't be appended to, and the attempt to
// begin another fails when CURRENT names that one already. It is no leftover.
func TestOpen_KeepsTheManifestThatCurrentMayName(t *testing.T) {
	mem := vfs.NewMem()
	opts := tinyStore(mem)
	db, err := Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, db, "k", "v")
	closeTest(t, db)
	var manifests, renamed int
	opts.FS = vfs.NewFault(mem, func(op vfs.Op, name string, _ int64) error {
		isManifest := strings.Contains(name, "MANIFEST")
		switch {
		case op == vfs.OpCreate && isManifest:
			manifests++
		case op == vfs.OpRename && strings.HasSuffix(name, "CURRENT"):
			renamed++
		case op == vfs.OpWrite && isManifest && renamed == 1 && manifests == 1:
			return syscall.EIO // of the edit that tells of the new log
		case op == vfs.OpSyncDir && renamed == 2:
			renamed++
			return syscall.EIO // the second manifest is in force, but who knows
		}
		return nil
	})
	db, err = Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	if manifests != 2 || renamed != 3 {
		t.Fatalf("%d manifests were made, want 2", manifests)
	}
	die := func() {
		db.cancel()
		db.background.Wait()
		db.abandon()
	}
	die()
	opts.FS = mem
	if db, err = Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	wantGet(t, db, "k", "v", true)
	closeTest(t, db)
}

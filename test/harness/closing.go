package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// Close verifies a store and closes it.
func Close(db *shale.DB) error {
	err := db.Verify(context.Background())
	if err != nil {
		err = fmt.Errorf("Verify: %w", err)
	}
	if cerr := db.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("Close: %w", cerr))
	}
	return err
}

// WantClose verifies a store and closes it, and fails the test if that fails.
func WantClose(t testing.TB, db *shale.DB) {
	t.Helper()
	if err := Close(db); err != nil {
		t.Error(err)
	}
}

// errDead is the error of all that a store does to its disk whose process has died.
var errDead = errors.New("the process is dead")

// dead fails what a dead process does not do any more: all but that its files are closed.
func dead(op vfs.Op, name string, _ int64) error {
	if op == vfs.OpClose || op == vfs.OpUnmap {
		return nil
	}
	return fmt.Errorf("%v of %s: %w", op, name, errDead)
}

// Die ends a store as the death of its process does: no operation happens any more on its disk, which
// is disk, but that files are closed.
func Die(db *shale.DB, disk *faultfs.FS) {
	disk.Inject(dead)
	_ = db.Close() // what the dead say is of no account
}

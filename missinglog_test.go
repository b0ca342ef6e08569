package shale

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Logs that the manifest could not be told of are known by their successors: a
// missing one is an error, not a gap.
func TestOpen_MissingLogThatTheManifestDoesNotKnow(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFault(mem, nil)
	opts := tinyStore(faults)
	db := openTest(t, &opts)
	first := db.logs.CurrentNum()
	faults.Inject(func(op vfs.Op, name string, _ int64) error {
		if strings.Contains(name, "MANIFEST") || op == vfs.OpCreate && strings.HasSuffix(name, ".sst") {
			return syscall.EIO
		}
		return nil
	})
	logs := []base.FileNum{first}
	for i := 0; len(logs) < 3; i++ {
		mustPut(t, db, fmt.Sprintf("key%03d", i), strings.Repeat("v", 500))
		if n := db.logs.CurrentNum(); n != logs[len(logs)-1] {
			logs = append(logs, n)
		}
	}
	crashed := mem.Crash(keepEverything)
	faults.Inject(nil)
	closeTest(t, db)

	opts.FS = crashed.Crash(keepEverything)
	db = openTest(t, &opts)
	wantGet(t, db, "key000", strings.Repeat("v", 500), true)
	closeTest(t, db)
	opts.FS = crashed
	name := base.LogName(logs[1])
	if err := crashed.Remove("db/" + name); err != nil {
		t.Fatal(err)
	}
	var damage *CorruptionError
	if _, err := Open("db", &opts); !errors.As(err, &damage) || damage.File != name {
		t.Errorf("Open without %s: %v, want a CorruptionError that names it", name, err)
	}
}

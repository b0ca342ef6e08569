package repair

import (
	"errors"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A copy was put over the directory of a newer state, whose newest log is still there. It follows the copy's logs as if
// it was theirs. The store does not open, the error names the file and the reason, and Check does too. Run leaves the
// log out. Without the file, the store opens as it was copied.
func TestCheck_LogOfAnotherState(t *testing.T) {
	mem := vfs.NewMem()
	opts := shale.Options{FS: mem}
	write := func(key string) {
		t.Helper()
		db, err := shale.Open("db", &opts)
		must(t, err)
		must(t, db.Put([]byte(key), []byte("value")))
		must(t, db.Close())
	}
	// The store is copied before b is written, and all of its files are put back afterwards.
	write("a")
	copied := filesIn(t, mem)
	write("b")
	for name, content := range copied {
		f, err := mem.Create("db/" + name)
		must(t, err)
		_, err = f.Write([]byte(content))
		must(t, errors.Join(err, f.Close()))
	}
	var stale string
	names, err := mem.List("db")
	must(t, err)
	for _, name := range names {
		if _, there := copied[name]; !there && strings.HasSuffix(name, ".wal") {
			stale = name
		}
	}
	if stale == "" {
		t.Fatalf("no log is left: %q of %d files", names, len(copied))
	}
	for _, readOnly := range []bool{false, true} {
		opts.ReadOnly = readOnly
		db, err := shale.Open("db", &opts)
		var damage *base.CorruptionError
		if !errors.As(err, &damage) || damage.File != stale || !strings.Contains(err.Error(), "older copy") {
			t.Errorf("Open with ReadOnly %v: %v; want damage in %s", readOnly, err, stale)
		}
		if err == nil {
			must(t, db.Close())
		}
	}
	opts.ReadOnly = false
	report, err := Check(t.Context(), "db", &Options{FS: mem})
	must(t, err)
	if len(report.Findings) == 0 || report.Findings[0].File != stale {
		t.Errorf("Check finds %v, want %s", report.Findings, stale)
	}
	_, err = Run(t.Context(), "db", "saved", &Options{FS: mem})
	must(t, err)
	must(t, mem.Remove("db/"+stale))
	for _, dir := range []string{"saved", "db"} {
		db, err := shale.Open(dir, &opts)
		must(t, err)
		if has, err := db.Has([]byte("a")); !has || err != nil {
			t.Errorf("%s: a is not there: %v", dir, err)
		}
		if has, err := db.Has([]byte("b")); has || err != nil {
			t.Errorf("%s: b is there: %v", dir, err)
		}
		must(t, db.Close())
	}
}

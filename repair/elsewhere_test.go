package repair

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/test/harness"
)

// Tables that a store keeps elsewhere are no damage. Check and Run say where they are, and change nothing.
func TestElsewhere(t *testing.T) {
	l := newStore(t, false)
	db, err := shale.Open(harness.Dir, &l.Opts)
	must(t, err)
	must(t, shale.ShippingOf(db).Elsewhere("the attic"))
	must(t, db.Close())
	check := func() (*CheckReport, error) { return Check(t.Context(), harness.Dir, &Options{FS: l.Mem}) }
	if r, err := check(); err != nil || r.Damaged() {
		t.Errorf("with all tables in the directory: %v, %+v", err, r)
	}
	for name := range filesIn(t, l.Mem) {
		if strings.HasSuffix(name, ".sst") {
			remove(t, l.Mem, filepath.Join(harness.Dir, name))
			break
		}
	}
	before := filesIn(t, l.Mem)
	_, cerr := check()
	_, rerr := Run(t.Context(), harness.Dir, "repaired", &Options{FS: l.Mem})
	for _, err := range []error{cerr, rerr} {
		var damage *shale.CorruptionError
		if !errors.Is(err, shale.ErrElsewhere) || errors.As(err, &damage) || !strings.Contains(err.Error(), "1 of the tables of db may be in the attic") {
			t.Error(err)
		}
	}
	if after := filesIn(t, l.Mem); len(after) != len(before) {
		t.Errorf("%d files, there were %d", len(after), len(before))
	}
	if _, err := l.Mem.Stat("repaired"); err == nil {
		t.Error("Run has begun a copy")
	}
	r, err := Run(t.Context(), harness.Dir, "repaired", &Options{FS: l.Mem, GiveUp: true})
	must(t, err)
	if r.GivenUp != 1 || r.GivenUpBytes == 0 || r.Whole() || r.Findings[0].Harm != LostEntries || !strings.Contains(r.Findings[0].What(), "given up, with") {
		t.Errorf("with one table given up: %+v", r)
	}
}

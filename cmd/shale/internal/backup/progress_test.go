package backup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A backup and a restore say of each table that they begin to copy what part of all is done. What comes after the tables has no
// known end.
func TestProgress(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 4 {
		w.put(fmt.Sprint("k", i), strings.Repeat("v", 100))
		w.must(w.db.Flush(t.Context()))
	}
	w.put("log", "1")
	size := int64(0)
	for _, table := range w.db.Inspect().Tables() {
		size += table.Size
	}
	p := new(Progress)
	var parts []string
	watched := faultfs.New(w.fs, func(op vfs.Op, name string, _ int64) error {
		if op == vfs.OpCreate && strings.Contains(name, ".sst") && p.All.Load() > 0 {
			parts = append(parts, fmt.Sprint(100*p.Done.Load()/p.All.Load()))
		}
		return nil
	})
	check := func(what string, err error) {
		t.Helper()
		w.must(err)
		if got := strings.Join(parts, " "); got != "0 25 50 75" || p.Done.Load() <= size || p.All.Load() != 0 {
			t.Errorf("%s: %s %% at each table, %d bytes of %d in tables; want 0 25 50 75", what, got, p.Done.Load(), size)
		}
		p, parts = new(Progress), nil
	}
	_, err := Run(t.Context(), watched, "db", "to", p)
	check("backup", err)
	_, err = Restore(t.Context(), watched, "to", "copy", Moment{}, p)
	check("restore", err)
}
